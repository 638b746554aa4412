package ctl

import "cqld/node/control"

// rangeCommands change the tokens of the ring one by one. A range is named by its end token.
type rangeCommands struct {
	Split splitRangeCommand `cmd:"" help:"Divide a range at a token. No data move."`
	Merge mergeRangeCommand `cmd:"" help:"Remove a token: its range becomes part of the next one."`
	Move  moveRangeCommand  `cmd:"" help:"Give ranges to another node."`
}

// splitRangeCommand names the new token.
type splitRangeCommand struct {
	Token int64 `arg:"" help:"The token at which the range is divided, a negative one after --."`
}

// Run divides a range.
func (c *splitRangeCommand) Run(s *session) error {
	return ask(s, control.SplitRange, control.TokenArgs{Token: c.Token}, quiet[control.None])
}

// mergeRangeCommand names the token that is removed.
type mergeRangeCommand struct {
	Token int64 `arg:"" help:"The end token of the range, from 'ranges', a negative one after --."`
}

// Run removes a token.
func (c *mergeRangeCommand) Run(s *session) error {
	return ask(s, control.MergeRange, control.TokenArgs{Token: c.Token}, quiet[control.None])
}

// moveRangeCommand names tokens and their next owner.
type moveRangeCommand struct {
	Tokens []int64 `arg:"" help:"The end tokens of the ranges, from 'ranges', negative ones after --."`
	To     string  `required:"" placeholder:"NODE" help:"Host ID, number or address of the next owner."`
}

// Run gives tokens to a node.
func (c *moveRangeCommand) Run(s *session) error {
	return ask(s, control.MoveRange, control.MoveRangeArgs{Tokens: c.Tokens, To: c.To}, quiet[control.None])
}
