// Package odata is the language of Azure Tables' bodies and URLs: entities in JSON and their eight types,
// $filter expressions, the keys in a URL, and the bodies of $batch. It knows bytes and what they say, not
// what is stored: of tables, accounts and HTTP it knows nothing.
//
//	JSON ──DecodeEntity──▶ Entity ──AppendEntity──▶ JSON        $filter ──ParseFilter──▶ Expr ──Matches(Entity)──▶ bool
//
// Sources: the REST reference of the Table service, and the recorded answers in facts/azure-tables.md; the
// JSON format is that of OData 3.0 (minimal, full and no metadata).
package odata
