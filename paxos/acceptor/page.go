package acceptor

import (
	"errors"

	"cqld/row"
)

// cutPage returns the page of a promise whose first row does not fit into the page: no rows, and the mark that rows
// follow.
func cutPage() []byte {
	w := row.NewPageWriter(nil)
	// true means that rows follow, so no proposer takes the page for an empty partition.
	return w.Finish(true)
}

// boundPage replaces the error of an acceptor that a row does not fit into the page by a page without rows: the
// promise counts.
func boundPage(page []byte, err error) ([]byte, error) {
	var small *row.PageTooSmall
	if errors.As(err, &small) {
		// Failing the promise would make a round of small changes depend on the largest row.
		return cutPage(), nil
	}
	return page, err
}
