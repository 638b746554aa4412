package paxos

import (
	"errors"

	"cqld/coordinator"
	"cqld/row"
)

// Pages is what a request holds at most in a round, in pages of Command.Limits.Bytes: those of five voters, their
// merge if they differ, the page that is decided on, its rows while conditions are evaluated, and the reply. The
// members of a round add their limits. Without a limit, the request is not bounded.
const Pages = 16

// repairPages is the part of Pages for a read that merges pages.
const repairPages = 8

// wholeBytes is the size from which a page is not larger than one without a limit.
const wholeBytes = 4 << 20

// short returns the error of a request whose only page ended before all rows that it needs, because of Limits.Bytes;
// nil if it did not. A command with a limit of rows is content with one row.
func short(cmd *row.ReadCommand, page []byte, more bool) error {
	size := int(cmd.Limits.Bytes)
	// Two bytes are a page without rows. A command with a limit of rows is content with a short page; one of wholeBytes
	// is as large as pages get.
	if !more || size == 0 || len(page) > 2 && (cmd.Limits.Rows > 0 || size >= wholeBytes) {
		return nil
	}
	// Four times as much: few retries reach the size, and none asks for more than four times what it needs.
	return &coordinator.NeedsMemory{Bytes: 4 * Pages * size}
}

// lacksMemory reports whether a read failed because the pages of the round are too large for the memory of its members.
func lacksMemory(err error) bool {
	var small *row.PageTooSmall
	var memory *coordinator.NeedsMemory
	// A page for less than one row, or a merge beyond the request's memory.
	return errors.As(err, &small) || errors.As(err, &memory)
}
