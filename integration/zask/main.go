// Command zask is scratch.
package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"cqld/integration/transcript"

	"github.com/cockroachdb/datadriven"
)

func main() {
	in, _ := io.ReadAll(os.Stdin)
	var players []*transcript.Player
	for _, a := range os.Args[1:] {
		p, err := transcript.Open(a, "zask")
		if err != nil {
			fmt.Println(a, err)
			os.Exit(1)
		}
		defer p.Close()
		players = append(players, p)
	}
	var args []datadriven.CmdArg
	cmd := "cql"
	var pending []string
	for _, line := range strings.Split(strings.TrimSpace(string(in)), "\n") {
		if line == "" || strings.HasPrefix(line, "--") {
			continue
		}
		if o, ok := strings.CutPrefix(line, "@"); ok {
			args, cmd = nil, "cql"
			for _, f := range strings.Fields(o) {
				k, v, _ := strings.Cut(f, "=")
				if k == "prepare" {
					cmd = k
					continue
				}
				a := datadriven.CmdArg{Key: k}
				if v != "" {
					a.Vals = []string{v}
				}
				args = append(args, a)
			}
			continue
		}
		if strings.HasPrefix(line, "?") {
			pending = append(pending, line)
			continue
		}
		text := strings.Join(append(pending, line), "\n")
		pending = nil
		var outs []string
		for _, p := range players {
			o, err := p.Play(&datadriven.TestData{Cmd: cmd, CmdArgs: args, Input: text})
			if err != nil {
				o = "ERR " + err.Error() + "\n"
			}
			outs = append(outs, o)
		}
		same := true
		for _, o := range outs {
			if o != outs[0] {
				same = false
			}
		}
		if same {
			if outs[0] == "ok\n" {
				continue
			}
			fmt.Printf("== %s\n%s", text, outs[0])
			continue
		}
		fmt.Printf("!! %s\n", text)
		for i, o := range outs {
			fmt.Printf("[%d] %s", i, o)
		}
	}
}
