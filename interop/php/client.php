<?php
// SoapClient against us: php client.php ARITHMETIC_WSDL ECHO_WSDL MATRIX_WSDL PAYLOADS
declare(strict_types=1);

require __DIR__ . '/logins.php';

const SIZES = [0, 1, 8191, 8192, 8193, 1 << 20];
const LARGE = 100_000_000; // goes through `call` only

// Subnormal, largest, not a binary fraction, negative zero.
const ROWS = [[0.1, -0.0, 1e-45], [3.4028235e38, 16777216.0, -1.1754944e-38]];

[, $arithmeticWsdl, $echoWsdl, $matrixWsdl, $payloads] = $argv;
$arithmetic = new SoapClient($arithmeticWsdl);
$echo = new SoapClient($echoWsdl);
$matrix = new SoapClient($matrixWsdl, ['features' => SOAP_SINGLE_ELEMENT_ARRAYS]);
$failed = 0;

function check(string $name, callable $body): void
{
    global $failed;
    try {
        $body();
        echo "ok $name\n";
    } catch (Throwable $problem) {
        $failed++;
        echo "not ok $name: {$problem->getMessage()}\n";
        fwrite(STDERR, "$problem\n");
    }
}

function same(mixed $found, mixed $wanted): void
{
    if ($found !== $wanted) {
        $shown = fn (mixed $value): string => substr(var_export($value, true), 0, 80);
        throw new Exception("found {$shown($found)}, wanted {$shown($wanted)}");
    }
}

function echoed(SoapClient $client, array $rows): array
{
    $items = array_map(fn (array $row) => ['item' => $row], $rows);
    return rows($client->echo(['matrix' => ['item' => $items]])->matrix);
}

function rows(object $found): array
{
    return array_map(fn (object $row) => $row->item, $found->item);
}

/** With the sign of a zero. */
function json(array $rows): string
{
    return json_encode($rows, JSON_PRESERVE_ZERO_FRACTION);
}

/** The bytes in single precision. */
function single(array $rows): string
{
    return implode('', array_map(fn (array $row) => pack('g*', ...$row), $rows));
}

function spawned(SoapClient $client, string $data): string
{
    $job = $client->spawn(['data' => $data])->job;
    while ($client->running(['job' => $job])->running) {
        usleep(20000);
    }
    return $client->results(['job' => $job])->copy;
}

/** The fields of a fault's detail but its sentence, which must be there as the reason. */
function fault(callable $call): array
{
    try {
        $call();
    } catch (SoapFault $fault) {
        if ($fault->getMessage() === '') {
            throw new Exception('the fault has no sentence');
        }
        [$fields] = array_values(get_object_vars($fault->detail));
        $fields = get_object_vars($fields);
        unset($fields['message']);
        return $fields;
    }
    throw new Exception('no fault');
}

check('call', fn () => same($arithmetic->call(['x' => 1, 'y' => 2])->result, 3));
foreach ([...SIZES, LARGE] as $size) {
    $data = file_get_contents("$payloads/$size.bin");
    check("call-file $size", fn () => same($echo->call(['data' => $data])->copy, $data));
    if ($size === LARGE) {
        continue;
    }
    check("spawn-file $size", fn () => same(spawned($echo, $data), $data));
}
check('array', fn () => same(json(echoed($matrix, ROWS)), json(ROWS)));
check('array-get', function () use ($matrix, $payloads) {
    $found = rows($matrix->getMatrix(['n' => 50])->matrix);
    same(array_map(count(...), $found), array_fill(0, 50, 50));
    same(bin2hex(single($found)), bin2hex(file_get_contents("$payloads/matrix.bin")));
});
check('array-special', fn () => same(
    array_map(strval(...), echoed($matrix, [[INF, -INF, NAN, 1.0]])[0]),
    ['INF', '-INF', 'NAN', '1'],
));
check('missing-job', fn () => same(
    fault(fn () => $echo->results(['job' => str_repeat('0', 32)])),
    ['code' => 'NoSuchJob', 'job' => str_repeat('0', 32)],
));
check('soap12', function () use ($arithmeticWsdl) {
    $client = new SoapClient($arithmeticWsdl, ['soap_version' => SOAP_1_2]);
    same($client->call(['x' => 1, 'y' => 2])->result, 3);
});
check('bad-value', fn () => same(
    // A plain 'abc' would be sent as 0.
    fault(fn () => $arithmetic->call(['x' => new SoapVar('abc', XSD_STRING), 'y' => 2])),
    ['code' => 'InvalidValue', 'parameter' => 'x'],
));
checkLogins();
exit($failed ? 1 : 0);
