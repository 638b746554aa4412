package config

import (
	"fmt"

	"cqld/azuretables"
	"cqld/internal/memory"
)

// DivideMemory determines the memory of the node, divides it, and sets the bounds that are not set. A second call does
// nothing. It must be called before the node starts, after all options are set. s is the machine, or a test's
// replacement. An error means that the memory is unknown or too small for the options. The parts and their shares are
// in package memory, which also refuses a figure below its minimum.
func (o *Options) DivideMemory(s memory.System) error {
	if o.Memory.Division.Figure != 0 {
		// Zero marks a division that has not been made.
		return nil
	}
	// The system is queried once, because its answer may change while the node runs.
	figure, err := o.figure(s)
	if err != nil {
		return err
	}
	// Two copies of the largest request must fit.
	if n := o.ClientLimits.BytesInFlight; n > 0 { // what is set for all requests decides how large one may be
		setUnset(&o.Requests.MaxFrameBytes, int(min(n/2, memory.FrameBytesMax)))
	}
	o.Memory.Division, err = memory.Divide(figure.Bytes, figure.Source,
		// Parts that the configuration sets are taken out of the division first.
		memory.Figures{BlockCache: o.Memory.CacheBytes, MemTable: o.Memory.MemTableBytes,
			Requests: o.ClientLimits.BytesInFlight, Frame: int64(o.Requests.MaxFrameBytes),
			Graph: max(o.Memory.VectorGraphBytes, 0), RowCache: o.Memory.RowCacheBytes})
	if err != nil {
		return err
	}
	m := &o.Memory.Division
	// Options that the configuration has set keep their values.
	setUnset(&o.Memory.CacheBytes, m.Part[memory.BlockCache])
	setUnset(&o.Memory.MemTableBytes, m.MemTable())
	// A negative value means that the configuration has none; zero means no graphs, and no cache of rows.
	if o.Memory.RowCacheBytes < 0 {
		o.Memory.RowCacheBytes = m.Part[memory.RowCache]
	}
	if o.Memory.VectorGraphBytes < 0 {
		o.Memory.VectorGraphBytes = m.Graph()
	}
	// From here on, zero fields of the options have the values of the division, so `SELECT * FROM
	// system_views.settings` shows what is used.
	setUnset(&o.ClientLimits.BytesInFlight, m.InFlight())
	setUnset(&o.Requests.MaxFrameBytes, int(m.Frame()))
	setUnset(&o.Tables.MaxConnections, min(azuretables.ConnectionsMax,
		m.TablesConnections(azuretables.ConnectionBytes)))
	// A node that cannot hold one request of the largest size would refuse it.
	if n := o.ClientLimits.BytesInFlight; n < int64(o.Requests.MaxFrameBytes) {
		return fmt.Errorf("memory_limit: the part for requests of %d MiB of %s is %d MiB, less than "+
			"native_transport_max_frame_size", m.Figure>>20,
			m.Source, n>>20)
	}
	return nil
}

// figure returns the smaller of memory_limit and what the system allows. Its source is for operators: it names the
// limit that decides. memory_limit cannot raise the figure above what the cgroup allows: the kernel would end the
// process.
func (o *Options) figure(s memory.System) (memory.Figure, error) {
	figure, err := memory.Detect(s)
	// An error of detection is not one if memory_limit is set.
	if limit := o.Memory.Limit; limit > 0 && (err != nil || limit < figure.Bytes) {
		return memory.Figure{Bytes: limit, Source: "memory_limit"}, nil
	}
	return figure, err
}

// setUnset sets a field that is zero.
func setUnset[T int | int64](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

// SetMemoryLimit sets memory_limit from text such as 2GiB. It is the form of a flag.
func (o *Options) SetMemoryLimit(text string) (err error) {
	o.Memory.Limit, err = ParseSize(text)
	return err
}
