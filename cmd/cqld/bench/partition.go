package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"cqld/azuretables"
	"cqld/azuretables/client"
)

// partitionCommand measures one partition, which one set of replicas serves: its rate does not grow with the cluster.
// The defaults are the example of the guide to partitioning: a race with a partition for each distance, and the target
// of 2,000 entities per second that Azure names for one partition.
type partitionCommand struct {
	URL     []string `name:"url" help:"URLs of the nodes, used in turn." default:"http://127.0.0.1:10002"`
	Account string   `help:"The storage account." default:"devstoreaccount1"`
	Key     string   `help:"Key of the account, base64. Not needed for the development account." env:"CQLD_TABLES_KEY"`
	Table   string   `help:"Name of the table to create; it must not exist. Default: a generated name." `
	Keep    bool     `help:"Do not delete the table afterwards."`

	Partition string `help:"PartitionKey of the target partition." default:"2011 New York City Marathon__Full"`
	Rows      int    `help:"Number of entities in the partition before the load." default:"2000"`
	Size      int    `help:"Payload of an entity in bytes." default:"1024"`
	Reads     int    `help:"Percentage of requests that read an entity; the others write." default:"50"`
	Batch     int    `help:"Entities per write. Above 1, each write is a transaction." default:"1"`

	Steps    []int         `help:"Numbers of requests in flight, one for each step." default:"1,2,4,8,16,32,64"`
	StepTime time.Duration `help:"Duration of each step." default:"5s"`
	Target   int           `help:"Entities per second that the partition should take." default:"2000"`

	BackoffBase time.Duration `name:"backoff" help:"z in the back-off y = Rand(0.8z,1.2z)(2^x-1) before retry x of a request to a busy server." default:"30s"`
	BackoffMin  time.Duration `help:"Minimum back-off: a retry waits min(this + y, maximum)." default:"3s"`
	BackoffMax  time.Duration `help:"Maximum back-off." default:"90s"`
	Retries     int           `help:"Number of retries of a request." default:"5"`
}

// Limits of the options, so that every run ends. They also bound memory: requests in flight have a goroutine each, and
// steps record latencies. stepsMax and stepTimeMax together limit the steps to less than 11 hours.
const (
	stepsMax    = 64
	inFlightMax = 4096
	stepTimeMax = 10 * time.Minute
	rowsMax     = 1_000_000
	sizeMax     = 32 << 10 // the limit of a String, in characters
	batchMax    = 100
	loadTimeout = 30 * time.Second // of each request that inserts the first rows
)

// validate returns an error that names the first option out of range.
func (c *partitionCommand) validate() error {
	// The order of the steps is free, and numbers may repeat.
	for _, n := range c.Steps {
		if n < 1 || n > inFlightMax {
			return fmt.Errorf("--steps: %d is not between 1 and %d", n, inFlightMax)
		}
	}
	switch {
	case len(c.Steps) == 0 || len(c.Steps) > stepsMax:
		return fmt.Errorf("--steps: the number of steps must be between 1 and %d", stepsMax)
	case c.StepTime <= 0 || c.StepTime > stepTimeMax:
		return fmt.Errorf("--step-time: must be above 0 and at most %s", stepTimeMax)
	case c.Rows < 1 || c.Rows > rowsMax:
		return fmt.Errorf("--rows: must be between 1 and %d", rowsMax)
	case c.Size < 1 || c.Size > sizeMax:
		return fmt.Errorf("--size: must be between 1 and %d", sizeMax)
	case c.Reads < 0 || c.Reads > 100:
		return errors.New("--reads: must be between 0 and 100")
	case c.Batch < 1 || c.Batch > batchMax:
		return fmt.Errorf("--batch: must be between 1 and %d", batchMax)
	case c.Target < 1:
		return errors.New("--target: must be above 0")
	case c.BackoffBase <= 0 || c.BackoffMin < 0 || c.BackoffMax < c.BackoffMin || c.Retries < 0:
		return errors.New("--backoff: must be above 0, with the minimum below the maximum; --retries must not be " +
			"below 0")
	}
	return nil
}

// Run creates the table, loads the partition, runs the steps, and prints the curve to standard output.
func (c *partitionCommand) Run(ctx context.Context) error {
	return c.run(ctx, os.Stdout)
}

// run writes the curve to out. Unless --keep is set, the table is deleted even after an error; an error of the deletion
// is joined to the result. After an interrupt it returns the error of ctx, once the table has been deleted.
func (c *partitionCommand) run(ctx context.Context, out io.Writer) (err error) {
	if err := c.validate(); err != nil {
		return err
	}
	l, err := c.load()
	if err != nil {
		return err
	}
	defer l.close()
	// If this fails, the table belongs to someone else, so drop is deferred only afterwards.
	if err := l.create(ctx); err != nil {
		return err
	}
	defer func() {
		if !c.Keep {
			err = errors.Join(err, l.drop())
		}
	}()
	if err := l.fill(ctx, c.Rows); err != nil {
		return err
	}
	fmt.Fprintf(out, "Partition %q of table %s has %d entities of %d bytes; %d %% of the requests read one, the "+
		"others write %d.\n\n", c.Partition, l.table, c.Rows, c.Size, c.Reads, c.Batch)
	fmt.Fprintf(out, "%9s %12s %10s %12s %9s %9s %9s %8s\n", "in flight", "entities/s", "of target", "requests/s",
		"p50 ms", "p99 ms", "refused", "failed")
	var best *step
	// Steps run one after the other, so that each has the whole server.
	for _, n := range c.Steps {
		s := l.step(ctx, n, c.StepTime)
		// An interrupted step is shorter than the others, so it is not printed.
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.print(out, c.Target)
		// The first of equal rates wins: it needs the fewest requests in flight.
		if best == nil || s.rate() > best.rate() {
			best = s
		}
		if s.failed > 0 {
			fmt.Fprintf(out, "%9s first failure: %v\n", "", s.first)
		}
	}
	// The peak is over all steps.
	return c.verdict(out, best)
}

// verdict compares the peak rate with the target (the guide: "compare with the limit of a single partition"). best is
// not nil, because there is at least one step.
func (c *partitionCommand) verdict(out io.Writer, best *step) error {
	if best.entities == 0 {
		return fmt.Errorf("bench: no request was answered: %w", best.first)
	}
	// A peak below the target is a result, not an error.
	than := "less than"
	if best.rate() >= float64(c.Target) {
		than = "at least"
	}
	_, err := fmt.Fprintf(out, "\nThe peak is %.0f entities/s at %d in flight: %s the target of %d.\n", best.rate(),
		best.inFlight, than, c.Target)
	return err
}

// load prepares the clients and the payload. No request is sent yet. A missing key is an error, except for the
// development account, whose key is public. After an error, clients need not be closed, because they have no
// connections yet.
func (c *partitionCommand) load() (*load, error) {
	key := c.Key
	if key == "" && c.Account == azuretables.DevelopmentAccount {
		key = azuretables.DevelopmentKey
	}
	if key == "" {
		return nil, errors.New("--key: needed for account " + c.Account)
	}
	l := &load{table: c.Table, partition: c.Partition, rows: c.Rows, reads: c.Reads, batch: c.Batch, retries: c.Retries,
		payload: strings.Repeat("x", c.Size), backoff: backoff{base: c.BackoffBase, min: c.BackoffMin,
			max: c.BackoffMax, rand: rand.Float64}}
	if l.table == "" {
		// The time makes table names unique across runs. In base 36 it contains only letters and digits, as table names
		// must.
		l.table = "CqldBench" + strconv.FormatInt(time.Now().UnixMilli(), 36)
	}
	// Enough idle connections for the largest step, so that steps do not measure reconnects.
	most := 1
	for _, n := range c.Steps {
		most = max(most, n)
	}
	for _, u := range c.URL {
		node, err := client.New(u, c.Account, key, most)
		if err != nil {
			return nil, err
		}
		l.nodes = append(l.nodes, node)
	}
	return l, nil
}
