// Package wire holds the primitives every byte format of cqld is made of:
// functions that append a value to a caller's buffer, and a Cursor that
// consumes values from one.
//
// It knows no message, row or key: those formats stand in the rooms that own
// them (server/frame, row, storage, messaging) and are built from this.
// It never allocates on behalf of a number it has read: a declared size or
// count is compared with the bytes that are left before anything is made of it.
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
// Uvarint and Varint are the base-128 integers of encoding/binary, for formats
// that are ours alone.
package wire
