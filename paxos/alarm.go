package paxos

import "time"

// alarmKind determines what the machine does when the alarm fires.
type alarmKind uint8

const (
	alarmNone   alarmKind = iota
	alarmLate             // replicas did not answer in time
	alarmSlow             // the last votes of a phase in which one was refused did not arrive in time
	alarmSettle           // the last promises did not arrive in time
	alarmResume           // the pause before the next attempt is over
	alarmCommit           // the pause before the commit is repeated is over
	alarmTurn             // the arbiter did not answer in time
)

// alarm is the timer of a round. Each alarm has a number, so that the callback of a replaced one is recognized and
// ignored.
type alarm struct {
	kind   alarmKind
	phase  roundPhase // in which it was set; it is ignored in others
	number int
	after  time.Duration
}

// arm replaces the alarm.
func (g *group) arm(kind alarmKind, after time.Duration) {
	// A new number makes a callback of the replaced timer that is already under way ineffective.
	g.alarm = alarm{kind: kind, phase: g.phase, number: g.alarm.number + 1, after: after}
}

// disarm removes the alarm. A callback of it that is already running is ignored.
func (g *group) disarm() {
	if g.alarm.kind != alarmNone {
		// The number changes here, too: the round stops its timer when it differs (round.setTimer).
		g.alarm = alarm{number: g.alarm.number + 1}
	}
}

// armed reports whether the alarm ends the present phase.
func (g *group) armed() bool { return g.alarm.kind != alarmNone && g.alarm.phase == g.phase }
