<?php
// PHP's SoapServer without a WSDL: php -S 127.0.0.1:PORT server.php, with PHP_CLI_SERVER_WORKERS processes.

class Arithmetic {
    public function add(int $x, int $y): int {
        return $x + $y;
    }
}

$server = new SoapServer(null, ['uri' => 'urn:quake']);
$server->setClass('Arithmetic');
$server->handle();
