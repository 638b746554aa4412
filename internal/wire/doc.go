// Package wire provides the primitives of all byte formats of cqld: functions that append a value to a caller's buffer,
// and a Cursor that consumes values from one.
//
// It does not know messages, rows or keys: the packages that own those formats (server/frame, row, storage, messaging)
// build them from these primitives. Decoders bound allocations by the bytes actually received: a declared size or count
// is compared with the remaining bytes before it is used.
//
// Fixed-width integers are big-endian. The CQL notations and their functions:
//
//	[short]          AppendUint16       Cursor.Uint16
//	[int]            AppendInt32        Cursor.Int32
//	[long]           AppendInt64        Cursor.Int64
//	[string]         AppendString       Cursor.String, Cursor.ShortBytes
//	[long string]    AppendLongString   Cursor.LongString, Cursor.LongStringBytes
//	[bytes]          AppendBytes        Cursor.Bytes       (nil = null = -1)
//	[value]          AppendValue        Cursor.Value       (-1 null, -2 unset)
//	[short bytes]    AppendShortBytes   Cursor.ShortBytes
//	[string list]    AppendStringList   Cursor.StringList
//	[inet]           AppendInet         Cursor.Inet
//	[inetaddr]       AppendInetAddr     Cursor.InetAddr
//	[uuid]           AppendUUID         Cursor.UUID
//	[unsigned vint]  AppendUnsignedVint Cursor.UnsignedVint
//	[vint]           AppendVint         Cursor.Vint
//
// Uvarint and Varint are the base-128 integers of encoding/binary, for formats that only cqld uses.
package wire
