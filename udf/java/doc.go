// Package java executes user-defined functions in a subset of Java.
//
// The subset has the statements and methods that are usual in functions of Cassandra: arithmetic, comparisons and
// conditions with Java's types and conversions (overflow, integer division, boxes and null), strings, Math,
// collections, tuples and user-defined types, local variables, if and loops. The compiler checks types as a Java
// compiler does, so an accepted body has the same meaning as in Java. Everything else is rejected with a message that
// names the unsupported construct. There is no Java virtual machine, and no class besides the listed ones.
//
//	body ── Compile: lex, parse and check types ──▶ *Program ── Run(meter, arguments) ──▶ value
//
// The compiler turns each expression and statement into a Go closure. Each closure counts its work on the meter
// (package value), which ends a call that exceeds its time or memory.
//
// Values of Java are Go values of package value:
//
//	byte, short, int, long, char    int64, in the range of the type
//	float, double                   float64; a float is rounded after each operation
//	boolean, String                 bool; string, in UTF-8
//	BigInteger, BigDecimal          *big.Int, *apd.Decimal; never modified
//	Date                            int64: milliseconds since 1970
//	collections, tuples, UDTs       *value.Table
//	null                            nil; otherwise a box is the same value as its primitive type
//
// Types exist in the compiler only: at execution no value knows its type. A body is compiled once and executed many
// times; nothing is interpreted from a text. The cost of a node is one indirect call.
package java
