package recover

import (
	"bufio"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"cqld/cluster/metadata"
	"cqld/cluster/recovery"
	"cqld/internal/uuid"
	"cqld/node/datadir"
)

// Commands are the subcommands of `cqld recover`.
type Commands struct {
	Inspect inspectCommand `cmd:"" help:"Show what metadata stopped nodes have, and write reports."`
	Start   startCommand   `cmd:"" help:"Make a new cluster of the surviving nodes, with the newest metadata."`
	Join    joinCommand    `cmd:"" help:"Let a surviving node take part in a recovery."`
}

// nodes are the data directories of stopped nodes.
type nodes struct {
	DataDir []string `required:"" help:"Data directory of a node; repeatable." type:"path" placeholder:"DIR" sep:"none"`
	storeKeys
}

// storeKeys are the keys of nodes that encrypt their data. A file takes precedence. The environment variables are the
// same as for a node.
type storeKeys struct {
	KeyFile string `name:"encryption-key-file" env:"CQLD_ENCRYPTION_KEY_FILE" type:"path" help:"File with store keys."`
	Key     string `name:"encryption-key" env:"CQLD_ENCRYPTION_KEY" hidden:""`
}

// inspectCommand is `cqld recover inspect`.
type inspectCommand struct {
	nodes
	Output string `help:"Write the report of the node to this file." type:"path" placeholder:"FILE"`
}

// Help describes the subcommand.
func (*inspectCommand) Help() string {
	return "Nodes must be stopped. A report is for start on another machine, and contains no data and no secrets. " +
		"With several data directories, the one with the newest metadata is named."
}

// Run prints the reports of the nodes. With --output, it writes the report of a single node.
func (c *inspectCommand) Run(out io.Writer) error {
	if c.Output != "" && len(c.DataDir) > 1 {
		return errors.New("--output takes the report of one node: give one --data-dir")
	}
	all, err := c.open()
	if err != nil {
		return err
	}
	defer closeAll(all)
	reports := reportsOf(all)
	if err := showReports(out, reports); err != nil {
		return err
	}
	if len(all) > 1 {
		fmt.Fprintf(out, "newest: %s\n", all[recovery.Newest(reports)].dir)
	}
	if c.Output == "" {
		return nil
	}
	b, err := json.MarshalIndent(reports[0], "", "  ")
	if err != nil {
		return err
	}
	if err := datadir.WriteDurable(c.Output, append(b, '\n')); err != nil {
		return err
	}
	fmt.Fprintf(out, "report written to %s\n", c.Output)
	return nil
}

// startCommand is `cqld recover start`.
type startCommand struct {
	nodes
	Report []string `help:"Report of a survivor elsewhere; repeatable." type:"path" placeholder:"FILE" sep:"none"`

	// The file is for join on the other machines.
	File string `help:"Output for join; contains secrets." type:"path" default:"cqld-recovery.json" placeholder:"FILE"`

	Force bool `help:"Recover although a majority of the voters survives."`
	Yes   bool `help:"Do not ask for confirmation."`

	in io.Reader // of the confirmation; nil means the standard input
}

// Help describes the subcommand.
func (*startCommand) Help() string {
	return "Nodes must be stopped. All members that are neither in --data-dir nor in --report are declared lost, and " +
		"can never return with their data. Run it on the machine of the survivor with the newest metadata; it prints " +
		"what may be lost and asks for confirmation. It writes the recovered metadata to --file, for join on the " +
		"other machines. An interrupted command can be repeated."
}

// Run starts a recovery, or continues one that was interrupted.
func (c *startCommand) Run(out io.Writer) error {
	all, err := c.open()
	if err != nil {
		return err
	}
	defer closeAll(all)
	others, err := readReports(c.Report)
	if err != nil {
		return err
	}
	f, err := c.interrupted(all, others)
	if err != nil {
		return err
	}
	if f != nil {
		fmt.Fprintf(out, "continuing %s\n", f.Recoveries[len(f.Recoveries)-1].String())
		return c.carryOut(out, all, f)
	}
	plan, err := c.prepare(all, others)
	if err != nil {
		return err
	}
	if err := showPlan(out, plan); err != nil {
		return err
	}
	if !c.Yes {
		if err := confirm(out, c.in); err != nil {
			return err
		}
	}
	if f, err = plan.File(); err != nil {
		return err
	}
	return c.carryOut(out, all, f)
}

// prepare plans a recovery on the node with the newest metadata.
func (c *startCommand) prepare(all []*node, others []*recovery.Report) (*recovery.Plan, error) {
	reports := reportsOf(all)
	own := recovery.Newest(reports)
	others = slices.Concat(others, slices.Delete(slices.Clone(reports), own, own+1))
	var seed [32]byte
	_, _ = rand.Read(seed[:]) // never fails (crypto/rand)
	id := metadata.RecoveryID(uuid.Random(mathrand.NewChaCha8(seed)))
	d := recovery.Draw{ID: id, At: time.Now().Unix()}
	return recovery.Prepare(all[own].state, others, d, c.Force)
}

// interrupted returns the file of an earlier command that these nodes must continue, or nil: the file of the flag, or
// the copy of a node that has adopted it while another node has not.
func (c *startCommand) interrupted(all []*node, others []*recovery.Report) (*recovery.File, error) {
	if b, err := os.ReadFile(c.File); err == nil {
		f, err := recovery.DecodeFile(b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.File, err)
		}
		for _, n := range all {
			if !f.Adopted(&n.state.Identity) {
				return f, nil
			}
		}
		if c.lacks(f, others) {
			return f, nil
		}
		return nil, fmt.Errorf("%s contains %s, in which these nodes took part: give another --file for another "+
			"recovery", c.File, f.Recoveries[len(f.Recoveries)-1].String())
	} else if !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	for _, n := range all {
		f, err := n.copied()
		if err != nil {
			return nil, err
		}
		if f == nil || !f.Adopted(&n.state.Identity) {
			continue
		}
		if c.lacks(f, others) || slices.ContainsFunc(all, func(o *node) bool { return !f.Adopted(&o.state.Identity) }) {
			return f, nil
		}
	}
	return nil, nil
}

// lacks reports whether a survivor on another machine has not adopted a file, by its report.
func (c *startCommand) lacks(f *recovery.File, others []*recovery.Report) bool {
	return slices.ContainsFunc(others, func(r *recovery.Report) bool { return !slices.Contains(r.Recoveries, f.ID()) })
}

// carryOut writes the file before any node adopts it, so that an interrupted command can be continued.
func (c *startCommand) carryOut(out io.Writer, all []*node, f *recovery.File) error {
	// Every node must accept the file before any node adopts it.
	for _, n := range all {
		if !f.Adopted(&n.state.Identity) {
			if _, err := f.Adopt(n.state); err != nil {
				return fmt.Errorf("%s: %w", n.dir, err)
			}
		}
	}
	b, err := f.Encode()
	if err != nil {
		return err
	}
	if err := datadir.WriteDurable(c.File, b); err != nil {
		return err
	}
	for _, n := range all {
		if err := n.adopt(out, f); err != nil {
			return err
		}
	}
	if rest := len(f.Survivors) - len(all); rest > 0 {
		fmt.Fprintf(out, "Copy %s to the machines of the other %d survivors and run there, before any node starts:\n"+
			"  cqld recover join --data-dir DIR --from %[1]s\n", c.File, rest)
	}
	fmt.Fprintf(out, "Then start the surviving nodes, and delete %s: it contains secrets.\n", c.File)
	return nil
}

// joinCommand is `cqld recover join`.
type joinCommand struct {
	nodes
	From string `required:"" help:"File of recovered metadata, from start." type:"existingfile" placeholder:"FILE"`
}

// Help describes the subcommand.
func (*joinCommand) Help() string {
	return "The node must be stopped, and must be one of the survivors of the recovery. Repeating the command does " +
		"nothing."
}

// Run makes the nodes members of the recovered cluster.
func (c *joinCommand) Run(out io.Writer) error {
	b, err := os.ReadFile(c.From)
	if err != nil {
		return err
	}
	f, err := recovery.DecodeFile(b)
	if err != nil {
		return fmt.Errorf("%s: %w", c.From, err)
	}
	all, err := c.open()
	if err != nil {
		return err
	}
	defer closeAll(all)
	for _, n := range all {
		if err := n.adopt(out, f); err != nil {
			return err
		}
	}
	return nil
}

// word is what the operator types to confirm a recovery.
const word = "recover"

// confirm asks the operator for the word.
func confirm(out io.Writer, in io.Reader) error {
	if in == nil {
		in = os.Stdin
	}
	fmt.Fprintf(out, "\nThe lost nodes can never return with their data. Type %q to continue: ", word)
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if strings.TrimSpace(line) != word {
		return errors.New("not confirmed: nothing was changed")
	}
	return nil
}
