package gosuite

import (
	"fmt"
	"io"
	"os"
	"time"
)

// runRing prints the numbers of nodes and tokens that the driver knows, after each change, until stdin ends.
func runRing(d Driver, s Settings) int {
	session, err := d.Open(s, "")
	if err != nil {
		fmt.Println("error", time.Now().UnixMilli(), err)
		return 1
	}
	stop := make(chan struct{})
	go func() {
		io.Copy(io.Discard, os.Stdin)
		close(stop)
	}()
	fmt.Println("ready")
	lastNodes, lastTokens := 0, 0
	for {
		nodes, tokens := session.Ring()
		if nodes != lastNodes || tokens != lastTokens {
			fmt.Println("ring", time.Now().UnixMilli(), nodes, tokens)
			lastNodes, lastTokens = nodes, tokens
		}
		select {
		case <-stop:
			fmt.Println("done")
			return 0
		case <-time.After(20 * time.Millisecond):
		}
	}
}
