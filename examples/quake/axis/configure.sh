#!/bin/sh
# The configuration manager's step for Axis: deploys the service in a scope. configure.sh Request|Session|Application DIRECTORY
set -eu
mkdir -p "$2/WEB-INF"
cat >"$2/WEB-INF/server-config.wsdd" <<WSDD
<?xml version="1.0" encoding="UTF-8"?>
<deployment xmlns="http://xml.apache.org/axis/wsdd/" xmlns:java="http://xml.apache.org/axis/wsdd/providers/java">
  <handler name="URLMapper" type="java:org.apache.axis.handlers.http.URLMapper"/>
  <service name="arithmetic" provider="java:RPC">
    <namespace>urn:quake</namespace>
    <parameter name="className" value="Arithmetic"/>
    <parameter name="allowedMethods" value="add"/>
    <parameter name="scope" value="$1"/>
  </service>
  <transport name="http">
    <parameter name="qs:wsdl" value="org.apache.axis.transport.http.QSWSDLHandler"/>
    <requestFlow>
      <handler type="URLMapper"/>
    </requestFlow>
  </transport>
</deployment>
WSDD
