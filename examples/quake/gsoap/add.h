//gsoap q service name: arithmetic
//gsoap q service namespace: urn:quake
//gsoap q service style: rpc
typedef long long xsd__long;
int q__add(xsd__long x, xsd__long y, xsd__long *addReturn);
