// @azure/data-tables against cqld: see ../README.md.
'use strict';

const assert = require('node:assert/strict');
const { TableClient, TableServiceClient, TableTransaction, AzureNamedKeyCredential, AzureSASCredential, generateTableSas, generateAccountSas, odata } = require('@azure/data-tables');

const endpoints = (process.env.CQLD_TABLES || 'http://127.0.0.1:10002').split(',');
const account = process.env.CQLD_TABLES_ACCOUNT || 'devstoreaccount1';
// The development account's key is public: every emulator has it.
const key = process.env.CQLD_TABLES_KEY || 'Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==';
const prefix = (process.env.CQLD_TABLES_PREFIX || 't') + 'Js';
const credential = new AzureNamedKeyCredential(account, key);
const options = { allowInsecureConnection: true, retryOptions: { maxRetries: 2 } };

const url = (node = 0) => `${endpoints[node % endpoints.length]}/${account}`;
const client = (table, node = 0, c = credential) => new TableClient(url(node), prefix + table, c, options);
const service = (node = 0, c = credential) => new TableServiceClient(url(node), c, options);

// Counted checks: see checks.py.
const checks = { count: 0, failures: [] };

function same(got, want, what) {
  checks.count++;
  try {
    assert.deepStrictEqual(got, want);
  } catch {
    checks.failures.push(`${what}: got ${show(got)}, want ${show(want)}`);
  }
}

const show = (v) => JSON.stringify(v, (_, w) => (typeof w === 'bigint' ? `${w}n` : w))?.slice(0, 300);

async function fails(call, status, code, what) {
  try {
    await call();
  } catch (e) {
    const got = [e.statusCode, e.details?.odataError?.code ?? e.code];
    same(code ? got : got.slice(0, 1), code ? [status, code] : [status], what);
    return e;
  }
  same('no error', [status, code], what);
  return undefined;
}

async function all(pages) {
  const out = [];
  for await (const e of pages) out.push(e);
  return out;
}

// plain takes the service's own properties off an entity.
function plain(e) {
  const { 'odata.metadata': _m, etag: _e, timestamp: _t, clientRequestId: _c, date: _d, requestId: _r, version: _v, contentType: _ct, cacheControl: _cc, xContentTypeOptions: _x, ...rest } = e;
  for (const k of Object.keys(rest)) if (k.startsWith('odata.') || k.includes('@')) delete rest[k];
  return rest;
}

async function tables() {
  const names = [0, 1, 2, 3].map((i) => `${prefix}List${i}`);
  for (const [i, n] of names.entries()) await service(i).createTable(n);
  const range = odata`TableName ge ${prefix + 'List'} and TableName lt ${prefix + 'Lisu'}`;
  same((await all(service().listTables({ queryOptions: { filter: range } }))).map((t) => t.name), names, 'query');
  const sizes = [];
  for await (const page of service(1).listTables({ queryOptions: { filter: range } }).byPage({ maxPageSize: 3 })) sizes.push(page.length);
  same(sizes, [3, 1], 'pages');
  await fails(() => service().createTable('1name'), 400, 'InvalidResourceName', 'a bad name');
  await fails(() => service().createTable('ab'), 400, 'OutOfRangeInput', 'a short name');
  for (const n of names) await service(2).deleteTable(n);
  same((await all(service().listTables({ queryOptions: { filter: range } }))).length, 0, 'deleted');
  const stats = await service().getStatistics().catch((e) => ({ geoReplication: { status: `${e.statusCode}` } }));
  same(['live', 'bootstrap', 'unavailable', '400'].includes(stats.geoReplication?.status), true, 'statistics');
}

async function types() {
  const t = client('Types');
  await t.createTable();
  const when = new Date('2021-05-26T15:48:07.045Z');
  const values = {
    text: 'Grüße 世界 𝄞', empty: '', number: 2147483647, negative: -2147483648, yes: true, no: false, ratio: 3.1, large: 9223372036854775807n, small: -9223372036854775808n,
    data: new Uint8Array([0, 255, 1]), when, id: { type: 'Guid', value: 'c9da6455-213d-42c9-9a79-3e9149a57833' },
    whole: { type: 'Double', value: '4' },
  };
  const made = await t.createEntity({ partitionKey: 'p', rowKey: 'r', ...values });
  same(/^W\/"datetime'/.test(made.etag), true, 'etag');
  const got = await client('Types', 1).getEntity('p', 'r');
  for (const [k, v] of Object.entries(values)) {
    if (k === 'whole') same(got[k], 4, k);
    else if (k === 'data') same(Buffer.from(got[k]).toString('hex'), '00ff01', k);
    else if (k === 'when') same(new Date(got[k].value ?? got[k]).toISOString(), when.toISOString(), k);
    else same(got[k], v, k);
  }
  same(got.etag, made.etag, 'etag of get');
  const raw = await t.getEntity('p', 'r', { disableTypeConversion: true });
  same([raw.large, raw.id], [{ type: 'Int64', value: '9223372036854775807' }, { type: 'Guid', value: values.id.value }], 'types without conversion');
  await t.createEntity({ partitionKey: 'p', rowKey: 'ticks', v: { type: 'DateTime', value: '1601-01-01T00:00:00.0000001Z' } });
  same((await t.getEntity('p', 'ticks', { disableTypeConversion: true })).v, { type: 'DateTime', value: '1601-01-01T00:00:00.0000001Z' }, '100 ns are kept');
  same(plain(await t.getEntity('p', 'r', { queryOptions: { select: ['text', 'number'] } })), { text: values.text, number: values.number }, 'select');
  for (const k of ["it's", 'a b', 'ü%&+']) {
    await t.createEntity({ partitionKey: k, rowKey: k, v: k });
    same(plain(await t.getEntity(k, k)), { partitionKey: k, rowKey: k, v: k }, `key ${k}`);
    await t.deleteEntity(k, k);
  }
  await fails(() => t.createEntity({ partitionKey: 'a/b', rowKey: 'r' }), 400, 'OutOfRangeInput', 'a bad key');
  await fails(() => t.createEntity({ partitionKey: 'x', rowKey: 'y', v: { type: 'Int64', value: 'abc' } }), 400, 'InvalidInput', 'a bad Int64');
  await fails(() => t.createEntity({ partitionKey: 'x', rowKey: 'y', v: 'x'.repeat(32769) }), 400, 'PropertyValueTooLarge', 'a long text');
  await fails(() => t.createEntity({ partitionKey: 'x', rowKey: 'y', ...Object.fromEntries([...Array(253).keys()].map((i) => [`p${i}`, i])) }), 400, 'TooManyProperties', '253 properties');
  await fails(() => t.getEntity('x', 'y'), 404, 'ResourceNotFound', 'nothing bad was kept');
  await fails(() => client('Nothing').createEntity({ partitionKey: 'x', rowKey: 'y' }), 404, 'TableNotFound', 'no table');
}

async function changes() {
  const t = client('Changes');
  await t.createTable();
  const e = (props) => ({ partitionKey: 'p', rowKey: 'r', ...props });
  const first = (await t.createEntity(e({ a: 1, b: 2 }))).etag;
  await fails(() => t.createEntity(e({})), 409, 'EntityAlreadyExists', 'insert again');
  const second = (await t.updateEntity(e({ b: 3, c: 4 }), 'Merge')).etag;
  same(plain(await t.getEntity('p', 'r')), e({ a: 1, b: 3, c: 4 }), 'merge');
  same((await t.getEntity('p', 'r')).etag, second, 'etag of merge');
  await fails(() => t.updateEntity(e({ d: 5 }), 'Merge', { etag: first }), 412, 'UpdateConditionNotSatisfied', 'merge with an old etag');
  await fails(() => t.updateEntity(e({ d: 5 }), 'Replace', { etag: first }), 412, 'UpdateConditionNotSatisfied', 'replace with an old etag');
  await fails(() => t.deleteEntity('p', 'r', { etag: first }), 412, 'UpdateConditionNotSatisfied', 'delete with an old etag');
  await t.updateEntity(e({ d: 5 }), 'Replace', { etag: second });
  same(plain(await t.getEntity('p', 'r')), e({ d: 5 }), 'replace');
  await fails(() => t.updateEntity({ partitionKey: 'p', rowKey: 'none' }), 404, 'ResourceNotFound', 'update of nothing');
  await t.upsertEntity({ partitionKey: 'p', rowKey: 'new', a: 1 }, 'Merge');
  await t.upsertEntity({ partitionKey: 'p', rowKey: 'new', b: 2 }, 'Merge');
  same(plain(await t.getEntity('p', 'new')), { partitionKey: 'p', rowKey: 'new', a: 1, b: 2 }, 'insert or merge');
  await t.upsertEntity({ partitionKey: 'p', rowKey: 'new', c: 3 }, 'Replace');
  same(plain(await t.getEntity('p', 'new')), { partitionKey: 'p', rowKey: 'new', c: 3 }, 'insert or replace');
  await t.deleteEntity('p', 'new');
  await fails(() => t.getEntity('p', 'new'), 404, 'ResourceNotFound', 'deleted');
  await fails(() => t.deleteEntity('p', 'new'), 404, 'ResourceNotFound', 'delete of nothing');
}

async function transactions() {
  const t = client('Batch');
  await t.createTable();
  const e = (rowKey, props) => ({ partitionKey: 'p', rowKey, ...props });
  for (const rk of ['merge', 'replace', 'delete']) await t.createEntity(e(rk, { a: 1 }));
  const tx = new TableTransaction();
  tx.createEntity(e('new', { v: 1 }));
  tx.updateEntity(e('merge', { b: 2 }), 'Merge');
  tx.updateEntity(e('replace', { c: 3 }), 'Replace');
  tx.deleteEntity('p', 'delete');
  tx.upsertEntity(e('upsert', { d: 4 }), 'Merge');
  const r = await t.submitTransaction(tx.actions);
  same([r.status, r.subResponses.length, r.subResponses.map((s) => s.status)], [202, 5, [204, 204, 204, 204, 204]], 'answers');
  same(r.getResponseForEntity('new').etag, (await t.getEntity('p', 'new')).etag, "an answer's etag");
  same((await all(t.listEntities())).map(plain), [e('merge', { a: 1, b: 2 }), e('new', { v: 1 }), e('replace', { c: 3 }), e('upsert', { d: 4 })], 'what is there');
  const rows = (n, pk, props) => [...Array(n).keys()].map((i) => ['upsert', { partitionKey: pk, rowKey: `r${String(i).padStart(3, '0')}`, ...props }]);
  await t.submitTransaction(rows(100, 'many', { v: 1 }));
  same((await all(t.listEntities({ queryOptions: { filter: odata`PartitionKey eq ${'many'}` } }))).length, 100, 'a hundred');
  await fails(() => t.submitTransaction([['create', e('x')], ['create', e('new')]]), 409, 'EntityAlreadyExists', 'insert of what is there');
  await fails(() => t.submitTransaction([['create', e('x')], ['update', e('none'), 'Merge']]), 404, 'ResourceNotFound', 'update of nothing');
  await fails(() => t.submitTransaction([['create', e('x')], ['update', e('new'), 'Merge', { etag: 'W/"datetime\'2001-01-01T00%3A00%3A00Z\'"' }]]), 412, 'UpdateConditionNotSatisfied', 'an old etag');
  await fails(() => t.submitTransaction([['create', e('x')], ['upsert', e('x')]]), 400, 'InvalidDuplicateRow', 'a row twice');
  await fails(() => t.submitTransaction(rows(101, 'more', {})), 400, 'InvalidInput', '101 operations');
  same((await all(t.listEntities({ queryOptions: { filter: "PartitionKey eq 'more' or RowKey eq 'x'" } }))).length, 0, 'none did anything');
}

async function queries() {
  const t = client('Query');
  await t.createTable();
  for (let p = 0; p < 12; p++) {
    const part = [...Array(100).keys()].map((i) => ['create', { partitionKey: `p${String(p).padStart(2, '0')}`, rowKey: `r${String(i).padStart(3, '0')}`, n: p * 100 + i, even: i % 2 === 0, big: BigInt(i) + 2n ** 40n }]);
    await client('Query', p).submitTransaction(part);
  }
  const numbers = (from, to) => [...Array(to - from).keys()].map((i) => i + from);
  const n = async (filter, node = 1) => (await all(client('Query', node).listEntities({ queryOptions: { filter } }))).map((e) => e.n);
  same(await n(undefined), numbers(0, 1200), 'all, over pages, in order');
  same(await n(odata`PartitionKey eq ${'p03'}`), numbers(300, 400), 'a partition');
  same(await n(odata`PartitionKey ge ${'p03'} and PartitionKey lt ${'p05'}`), numbers(300, 500), 'partitions');
  same(await n(odata`n eq ${777}`), [777], 'a number');
  same(await n(odata`big eq ${2n ** 40n + 7n} and n lt 100`), [7], 'an Int64');
  same(await n(odata`even eq ${true} and n lt 5`), [0, 2, 4], 'a Boolean');
  same(await n(odata`not (n lt 1198)`), [1198, 1199], 'not');
  const pages = client('Query', 2).listEntities().byPage({ maxPageSize: 450 });
  const first = await pages.next();
  const token = first.value.continuationToken;
  const rest = [];
  for await (const page of client('Query', 3).listEntities().byPage({ maxPageSize: 450, continuationToken: token })) rest.push(page.map((e) => e.n));
  same([first.value.map((e) => e.n), ...rest], [numbers(0, 450), numbers(450, 900), numbers(900, 1200)], 'a continuation token at another node');
  await fails(() => n('aaa bbb ccc'), 400, 'InvalidInput', 'no filter at all');
}

async function signatures() {
  const t = client('Sas');
  await t.createTable();
  await t.createEntity({ partitionKey: 'b', rowKey: 'r' });
  const at = (s) => new Date(Date.now() + s * 1000);
  const by = (o) => client('Sas', 1, new AzureSASCredential(generateTableSas(prefix + 'Sas', credential, o)));
  const read = by({ permissions: { query: true }, expiresOn: at(600) });
  same((await read.getEntity('b', 'r')).rowKey, 'r', 'read');
  await fails(() => read.createEntity({ partitionKey: 'b', rowKey: 'x' }), 403, 'AuthorizationPermissionMismatch', 'read only');
  await fails(() => by({ permissions: { query: true }, startsOn: at(-600), expiresOn: at(-60) }).getEntity('b', 'r'), 403, 'AuthenticationFailed', 'expired');
  const some = by({ permissions: { query: true, add: true }, expiresOn: at(600), startPartitionKey: 'b', startRowKey: '', endPartitionKey: 'c', endRowKey: 'zz' });
  await some.createEntity({ partitionKey: 'c', rowKey: 'in' });
  await fails(() => some.createEntity({ partitionKey: 'd', rowKey: 'out' }), 403, 'AuthorizationFailure', 'beyond the range');
  const sas = generateAccountSas(credential, { permissions: { query: true, list: true }, resourceTypes: 'so', expiresOn: at(600) });
  same((await all(client('Sas', 0, new AzureSASCredential(sas)).listEntities())).length, 2, 'account SAS');
  await fails(() => service(0, new AzureSASCredential(sas)).createTable(prefix + 'Other'), 403, undefined, 'account SAS without create');
  await t.setAccessPolicy([{ id: 'stored', accessPolicy: { start: at(-60), expiry: at(600), permission: 'r' } }]);
  const policies = await t.getAccessPolicy();
  same(policies.map((p) => [p.id, p.accessPolicy?.permission]), [['stored', 'r']], 'stored policy');
  same((await by({ identifier: 'stored' }).getEntity('b', 'r')).rowKey, 'r', 'by the policy');
  await t.setAccessPolicy([]);
  await fails(() => by({ identifier: 'stored' }).getEntity('b', 'r'), 403, 'AuthenticationFailed', 'revoked');
}

async function main() {
  let failed = false;
  for (const group of [tables, types, changes, transactions, queries, signatures]) {
    checks.count = 0;
    checks.failures = [];
    try {
      await group();
    } catch (e) {
      checks.failures.push(String(e.stack || e).slice(0, 500));
    }
    for (const f of checks.failures) console.log(`fail ${group.name} ${f.replace(/\s+/g, ' ')}`);
    if (checks.failures.length === 0) console.log(`ok ${group.name} ${checks.count}`);
    failed = failed || checks.failures.length > 0;
  }
  return failed ? 1 : 0;
}

main().then((code) => process.exit(code));
