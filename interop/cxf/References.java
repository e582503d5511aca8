// Data by reference with stubs that wsdl2java made from `?wsdl&data=xdescr`: no type is written by hand.

import java.io.InputStream;
import java.net.URI;
import java.net.URL;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;

import javax.xml.namespace.QName;
import javax.xml.parsers.DocumentBuilderFactory;
import javax.xml.transform.dom.DOMResult;

import echoxdescr.Data;
import echoxdescr.EchoFile;
import echoxdescr.EchoFilePortType;
import echoxdescr.FaultMessage;
import echoxdescr.Outputs;
import echoxdescr.XMLData;

import jakarta.activation.DataHandler;
import jakarta.xml.ws.BindingProvider;
import jakarta.xml.ws.soap.MTOMFeature;
import jakarta.xml.ws.wsaddressing.W3CEndpointReference;
import jakarta.xml.ws.wsaddressing.W3CEndpointReferenceBuilder;

import org.apache.cxf.attachment.ByteDataSource;
import org.apache.cxf.binding.soap.SoapHeader;
import org.apache.cxf.headers.Header;
import org.apache.cxf.jaxb.JAXBDataBinding;

import org.w3c.dom.Document;
import org.w3c.dom.Element;

final class References {
    private static final String WSA = "http://www.w3.org/2005/08/addressing";
    private static final String XDESCR = "urn:fishplate:xdescr:1";
    private static final String OPTIONS = "urn:fishplate:options:1";
    private static final int NAME = 8193;

    private final EchoFile service;
    private final String origin;
    private final byte[] data;

    References(URL wsdl, String origin, Path payloads) throws Exception {
        this.service = new EchoFile(wsdl);
        this.origin = origin;
        this.data = Files.readAllBytes(payloads.resolve(NAME + ".bin"));
    }

    void run() {
        Client.check("reference-in", () -> same(bytes(call(elsewhere()))));
        Client.check("reference-verified", this::verified);
        Client.check("reference-out", this::out);
        Client.check("reference-through", () -> {
            Data first = call(elsewhere(), wanted("reference"));
            same(bytes(call(first)));
        });
        Client.check("reference-value", () -> same(bytes(call(here()))));
        Client.check("reference-mtom", () -> {
            EchoFilePortType port = service.getEchoFileSoap11(new MTOMFeature(true));
            same(bytes(port.call(here())));
        });
        Client.check("reference-xml", this::xml);
    }

    private Data call(Data sent, Header... headers) throws Exception {
        EchoFilePortType port = service.getEchoFileSoap11();
        ((BindingProvider) port).getRequestContext().put(Header.HEADER_LIST, List.of(headers));
        return port.call(sent);
    }

    private Data here() {
        Data sent = new Data();
        sent.setValue(new DataHandler(new ByteDataSource(data, "application/octet-stream")));
        return sent;
    }

    private W3CEndpointReferenceBuilder reference() {
        return new W3CEndpointReferenceBuilder().address(origin + "/" + NAME + ".bin");
    }

    private Data elsewhere() {
        return at(reference().build());
    }

    private static Data at(W3CEndpointReference reference) {
        Data sent = new Data();
        sent.setEndpointReference(reference);
        return sent;
    }

    private static Header wanted(String form) throws Exception {
        Outputs.Output output = new Outputs.Output();
        output.setName("copy");
        output.setAs(form);
        Outputs outputs = new Outputs();
        outputs.getOutput().add(output);
        return new SoapHeader(new QName(OPTIONS, "outputs"), outputs, new JAXBDataBinding(Outputs.class));
    }

    private void verified() throws Exception {
        Element length = told("Length", Integer.toString(data.length));
        same(bytes(call(at(reference().metadata(length).metadata(told("Digest", digest(data))).build()))));
        try {
            call(at(reference().metadata(told("Digest", digest(new byte[3]))).build()));
        } catch (FaultMessage fault) {
            expect("DataMismatch".equals(fault.getFaultInfo().getCode()), fault.getFaultInfo().getCode());
            return;
        }
        throw new IllegalStateException("no fault");
    }

    private void out() throws Exception {
        Data found = call(here(), wanted("reference"));
        expect(found.getValue() == null, "the value came too");
        DOMResult result = new DOMResult();
        found.getEndpointReference().writeTo(result);
        Document reference = (Document) result.getNode();
        URL address = URI.create(text(reference, WSA, "Address")).toURL();
        try (InputStream came = address.openStream()) {
            same(came.readAllBytes());
        }
        expect(text(reference, XDESCR, "Length").equals(Integer.toString(data.length)), "another length");
        // The digest of what was just made may not be known yet.
        boolean told = reference.getElementsByTagNameNS(XDESCR, "Digest").getLength() > 0;
        expect(!told || text(reference, XDESCR, "Digest").equals(digest(data)), "another digest");
    }

    private void xml() throws Exception {
        Document document = DocumentBuilderFactory.newInstance().newDocumentBuilder().newDocument();
        Element model = document.createElement("GeoModel");
        model.setAttribute("GeoModelID", "PipeExample");
        XMLData inline = new XMLData();
        inline.setAny(model);
        Data sent = new Data();
        sent.setXMLData(inline);
        String found = new String(bytes(call(sent)), java.nio.charset.StandardCharsets.UTF_8);
        expect(found.startsWith("<GeoModel ") && found.contains("GeoModelID=\"PipeExample\""), found);
    }

    private static Element told(String name, String text) throws Exception {
        DocumentBuilderFactory factory = DocumentBuilderFactory.newInstance();
        factory.setNamespaceAware(true);
        Document document = factory.newDocumentBuilder().newDocument();
        Element element = document.createElementNS(XDESCR, "x:" + name);
        element.setTextContent(text);
        return element;
    }

    private static String text(Document document, String namespace, String name) {
        return document.getElementsByTagNameNS(namespace, name).item(0).getTextContent();
    }

    private static String digest(byte[] bytes) throws Exception {
        byte[] digest = MessageDigest.getInstance("SHA-256").digest(bytes);
        return "sha-256=:" + Base64.getEncoder().encodeToString(digest) + ":";
    }

    private static byte[] bytes(Data found) throws Exception {
        expect(found.getValue() != null, "no value");
        return found.getValue().getInputStream().readAllBytes();
    }

    private void same(byte[] found) {
        expect(Arrays.equals(found, data), "other bytes: " + found.length + " of " + data.length);
    }

    private static void expect(boolean good, String what) {
        if (!good) {
            throw new IllegalStateException(what);
        }
    }
}
