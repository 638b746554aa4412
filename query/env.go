package query

// environment is what functions of one statement see of the outside.
type environment struct {
	p      *Processor
	millis int64
}

// NowMillis is the time at which the statement began.
func (e *environment) NowMillis() int64 { return e.millis }

// TimeUUID is a new time-based UUID.
func (e *environment) TimeUUID() [16]byte { return e.p.ids.TimeUUID(e.millis) }

// RandomUUID is a new random UUID.
func (e *environment) RandomUUID() [16]byte { return e.p.ids.RandomUUID() }

// nowSeconds decides what has expired: the clock's time, or what the request says it is.
func (p *Processor) nowSeconds(params *Params) int64 {
	if params.HasNow {
		return params.NowInSeconds
	}
	return p.o.Clock.Now().Unix()
}
