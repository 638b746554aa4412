package paxos

import (
	"errors"

	"cqld/coordinator"
	"cqld/row"
)

// Pages is the maximum memory of a request in a round, as a multiple of Command.Limits.Bytes: the pages of five
// voters, their merge if they differ, the page on which the condition is evaluated, its decoded rows, and the reply.
// The members of a round add their limits. Without a limit, the request is not bounded.
const Pages = 16

// repairPages is the part of Pages for a read that merges pages.
const repairPages = 8

// wholeBytes is at least the size at which storage ends any page: a larger limit has no effect.
const wholeBytes = 4 << 20

// short returns the error of a request whose only page ended before all rows that it needs, because of Limits.Bytes;
// nil if it did not. A command with a limit of rows is content with one row.
func short(cmd *row.ReadCommand, page []byte, more bool) error {
	size := int(cmd.Limits.Bytes)
	// A page of two bytes has no rows. A command with a limit on rows may get a short page, and no page is larger
	// than wholeBytes.
	if !more || size == 0 || len(page) > 2 && (cmd.Limits.Rows > 0 || size >= wholeBytes) {
		return nil
	}
	// Growing by four reaches the size in few retries, and never requests more than four times the necessary size.
	return &coordinator.NeedsMemory{Bytes: 4 * Pages * size}
}

// lacksMemory reports whether a read failed because the pages of the round are too large for the memory of its members.
func lacksMemory(err error) bool {
	var small *row.PageTooSmall
	var memory *coordinator.NeedsMemory
	// The page limit is smaller than a row, or the merge exceeded the request's memory.
	return errors.As(err, &small) || errors.As(err, &memory)
}
