// Package odata encodes and decodes the bodies and URLs of Azure Tables: entities in JSON with their eight types,
// $filter expressions, the keys in a URL, and the bodies of $batch. It does not handle storage, accounts or HTTP, and
// does not support Atom or verbose JSON.
//
//	JSON ──DecodeEntity──▶ Entity ──Context.AppendEntity──▶ JSON
//	                         │
//	$filter ──ParseFilter──▶ Expr ──Matches──▶ bool
//	path ──ParsePath──▶ Path          If-Match ──ParseETag──▶ ticks
//	$batch ──ParseBatch──▶ []Request … []Reply ──AppendReplies──▶ body
//
// Decoders read their input once, without reflection; their results refer to the input. Encoders append. All errors are
// an *Error with the service's code and message. All bounds are in Limits.
//
// Sources: the REST reference of the Table service, and recorded responses of the service (testdata/recorded). The JSON
// format is OData 3.0's (minimal, full and no metadata). Where neither source specifies how input is read, the
// package follows Microsoft's OData library for .NET. Strings are ordered by their UTF-8 bytes. Text that is not valid
// UTF-8, such as half of a surrogate pair, is refused.
package odata
