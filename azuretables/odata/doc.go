// Package odata is the language of Azure Tables' bodies and URLs: entities in JSON and their eight types,
// $filter expressions, the keys in a URL, and the bodies of $batch. It knows bytes and what they say, not
// what is stored: of tables, accounts and HTTP it knows nothing. It reads no Atom and no verbose JSON.
//
//	JSON ──DecodeEntity──▶ Entity ──Context.AppendEntity──▶ JSON
//	                         │
//	$filter ──ParseFilter──▶ Expr ──Matches──▶ bool
//	path ──ParsePath──▶ Path          If-Match ──ParseETag──▶ ticks
//	$batch ──ParseBatch──▶ []Request … []Reply ──AppendReplies──▶ body
//
// Readers look at bytes once, without reflection; what they give back lies in the bytes that they were
// given. Writers append. Whatever is refused is an *Error with the service's code and message. All bounds
// are in Limits.
//
// Sources: the REST reference of the Table service, and answers of the service as recorded (testdata/recorded);
// the JSON format is that of OData 3.0 (minimal, full and no metadata), and how it is read where neither says
// anything is how Microsoft's OData library for .NET reads it. Where the order of texts matters it is that of
// UTF-8 bytes. A text that is no UTF-8, such as half of a surrogate pair, is refused.
package odata
