package repair

// tablesEventKind is the kind of an event of Tables.
type tablesEventKind uint8

const (
	// tablesStarted is the start of the repair.
	tablesStarted tablesEventKind = iota
	// tablesProgressed is the beginning of a run, or the end of one of its ranges.
	tablesProgressed
	// tablesRunEnded is the end of a run.
	tablesRunEnded
	// tablesCancelled is a call of Cancel.
	tablesCancelled
)

// tablesEvent is an input of a tablesMachine.
type tablesEvent struct {
	kind       tablesEventKind
	number     uint64           // of the run: progressed, runEnded
	checkpoint tablesCheckpoint // started: of the last attempt
	report     Report           // progressed, runEnded
	err        error            // runEnded
}

// tablesEffectKind is the kind of an effect of Tables.
type tablesEffectKind uint8

const (
	// tablesRun starts a run. Its events are tablesProgressed and tablesRunEnded.
	tablesRun tablesEffectKind = iota
	// tablesCancelRun cancels the run that was started last.
	tablesCancelRun
	// tablesProgress reports progress to the job.
	tablesProgress
	// tablesStore stores a checkpoint.
	tablesStore
	// tablesFinish ends the repair. It is the last effect.
	tablesFinish
)

// tablesEffect is an output of a tablesMachine.
type tablesEffect struct {
	kind        tablesEffectKind
	number      uint64           // run
	job         Job              // run
	done, total int64            // progress: ranges
	phase       string           // progress
	checkpoint  tablesCheckpoint // store
	summary     Summary          // finish
	err         error            // finish
}
