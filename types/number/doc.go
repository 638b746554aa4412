// Package number implements varint and decimal, CQL's exact numbers of any size, on their wire forms: conversion to
// digits, text and floats, and comparison.
//
// It does not know types, null and empty values, or malformed bytes (package types does), nor arithmetic (package
// query/function). A varint is two's complement of at least one byte, big-endian, and need not be minimal. A decimal is
// a scale of ScaleBytes and the unscaled number as a varint, or no more bytes for zero; its value is
// unscaled × 10^-scale.
//
//	varint 00 80              128
//	decimal 00000002 0096     1.50
//
// Values from clients have up to 16 MiB and scales of 32 bits. Time and memory depend on the bytes, never on the scale;
// conversions to digits take more than linear time, and comparisons avoid them (long.go).
package number
