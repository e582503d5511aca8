#!/bin/sh
# curl against us: the ways in which it logs in (docs/guides/logins.md shows them), and what it is told if it can't.
url=${INTEROP_LOGIN_URL%\?*} password=$INTEROP_LOGIN_PASSWORD token=$INTEROP_LOGIN_TOKEN
status=0
scratch=$(mktemp -d) && trap 'rm -r "$scratch"' EXIT

cat > "$scratch/call.xml" <<END
<e:Envelope xmlns:e="http://schemas.xmlsoap.org/soap/envelope/"><e:Body>
<call xmlns="urn:test"><x>1</x><y>2</y></call></e:Body></e:Envelope>
END
cd "$scratch" || exit 1

# check NAME STATUS TEXT: whether the answer on standard input has this status and this text.
check() {
    answer=$(cat)
    case $answer in
    *"$3"*"$2") echo "ok $1" ;;
    *) echo "not ok $1: $answer" | tr '\n' ' '; echo; status=1 ;;
    esac
}

post() { curl -s -w ' %{http_code}' -H 'Content-Type: text/xml' --data-binary @call.xml "$@"; }

post --user "alice:$password" "$url" | check login-basic 200 '>3<'
post -H "Authorization: Bearer $token" "$url" | check login-bearer 200 '>3<'
echo "machine 127.0.0.1 login alice password $password" > netrc
post --netrc-file netrc "$url" | check login-netrc 200 '>3<'
post --user alice:wrong "$url" | check login-refused 401 Unauthenticated
exit $status
