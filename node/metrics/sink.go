package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"cqld/internal/histogram"
	"cqld/request"
)

// sink converts numbers to metrics. It is valid for one collection. out is the registry's channel, which is drained
// until Collect returns, so a send blocks only briefly.
type sink struct{ out chan<- prometheus.Metric }

// send emits one sample. Descriptions are made for each collection, which is cheap compared with the transfer. names
// and values of labels have the same length. It panics for a wrong number of values, which is a defect of this package.
func (m sink) send(kind prometheus.ValueType, name, help string, v float64, labels, values []string) {
	m.out <- prometheus.MustNewConstMetric(prometheus.NewDesc("cqld_"+name, help, labels, nil), kind, v, values...)
}

// gauge emits a value that may fall, without labels. The prefix cqld_ is added to the name.
func (m sink) gauge(name, help string, v int64) {
	m.send(prometheus.GaugeValue, name, help, float64(v), nil, nil)
}

// counter emits a value that only rises; total is added to its name, as Prometheus' naming convention requires.
func (m sink) counter(name, help string, v int64) {
	m.send(prometheus.CounterValue, name+"_total", help, float64(v), nil, nil)
}

// histogram emits a histogram of seconds in powers of two, from 65 µs to 17 s. The bounds are powers of two from 2^16
// ns to 2^34 ns. h may be in use; the copy need not be exact.
func (m sink) histogram(name, help string, h *histogram.Histogram, labels, values []string) {
	buckets, count, sum := h.Octaves(16, 34)
	m.out <- prometheus.MustNewConstHistogram(prometheus.NewDesc("cqld_"+name, help, labels, nil), count,
		sum.Seconds(), buckets, values...)
}

// scaled emits the histogram of requests that were measured by sampling. All requests are counted, as if the others had
// the same latencies. KindStats.Latency contains the sample (one in request.SampledReads for reads), Count all
// requests. Bucket counts are cumulative, as Octaves returns them.
func (m sink) scaled(name, help string, t *request.KindStats, labels, values []string) {
	buckets, measured, sum := t.Latency.Octaves(16, 34)
	// A counter that is read first may lack a few requests, so the larger one counts.
	count := max(uint64(t.Count.Load()), measured)
	seconds := sum.Seconds()
	// Without a measured request, the histogram is empty, and count says how many there were.
	if measured > 0 {
		factor := float64(count) / float64(measured)
		seconds *= factor
		// Rounding down keeps each bucket at most the next one, as Prometheus requires.
		for le, n := range buckets {
			buckets[le] = uint64(float64(n) * factor)
		}
	}
	m.out <- prometheus.MustNewConstHistogram(prometheus.NewDesc("cqld_"+name, help, labels, nil), count, seconds,
		buckets, values...)
}
