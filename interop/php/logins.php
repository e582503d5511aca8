<?php
// The ways in which SoapClient logs in: docs/guides/logins.md shows them.
declare(strict_types=1);

function basic(string $url, string $password): SoapClient
{
    return new SoapClient($url, ['login' => 'alice', 'password' => $password]);
}

function bearer(string $url, string $token): SoapClient
{
    $context = stream_context_create(['http' => ['header' => "Authorization: Bearer $token"]]);
    return new SoapClient($url, ['stream_context' => $context]);
}

const WSS = 'http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss';

/** A header `Security` with this in its token. */
function security(string $content): SoapHeader
{
    [$secext, $utility] = [WSS . '-wssecurity-secext-1.0.xsd', WSS . '-wssecurity-utility-1.0.xsd'];
    $token = "<s:Security xmlns:s=\"$secext\" xmlns:u=\"$utility\"><s:UsernameToken>$content</s:UsernameToken></s:Security>";
    return new SoapHeader($secext, 'Security', new SoapVar($token, XSD_ANYXML));
}

function usernameToken(string $user, string $password): SoapHeader
{
    [$user, $password] = array_map(htmlspecialchars(...), [$user, $password]);
    return security("<s:Username>$user</s:Username><s:Password>$password</s:Password>");
}

/** Each message needs one of its own. */
function usernameTokenWithDigest(string $user, string $token): SoapHeader
{
    [$nonce, $created] = [random_bytes(16), gmdate('Y-m-d\TH:i:s\Z')];
    $digest = base64_encode(sha1($nonce . $created . $token, true));
    $type = WSS . '-username-token-profile-1.0#PasswordDigest';
    return security('<s:Username>' . htmlspecialchars($user) . "</s:Username><s:Password Type=\"$type\">$digest</s:Password>"
        . '<s:Nonce>' . base64_encode($nonce) . "</s:Nonce><u:Created>$created</u:Created>");
}

function text(string $url, string $password): SoapClient
{
    $client = new SoapClient($url);
    $client->__setSoapHeaders(usernameToken('alice', $password));
    return $client;
}

function digest(string $url, string $token): SoapClient
{
    $client = new SoapClient($url);
    $client->__setSoapHeaders(usernameTokenWithDigest('alice', $token));
    return $client;
}

function checkLogins(): void
{
    [$url, $password, $token, $digestToken] = array_map(
        fn (string $name): string => getenv("INTEROP_LOGIN_$name"),
        ['URL', 'PASSWORD', 'TOKEN', 'DIGEST_TOKEN'],
    );
    foreach ([
        'login-basic' => fn () => basic($url, $password),
        'login-bearer' => fn () => bearer($url, $token),
        'login-text' => fn () => text($url, $password),
        'login-digest' => fn () => digest($url, $digestToken),
    ] as $name => $client) {
        check($name, fn () => same($client()->call(['x' => 1, 'y' => 2])->result, 3));
    }
    check('login-refused', function () use ($url) {
        try {
            text($url, 'wrong')->call(['x' => 1, 'y' => 2]);
        } catch (SoapFault $fault) {
            same(str_contains($fault->getMessage(), 'password'), true);
            return;
        }
        throw new Exception('it was let in');
    });
}
