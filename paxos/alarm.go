package paxos

import "time"

// alarmKind is what happens when the time of an alarm is over.
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

// alarm is the timer of a round. An alarm that was replaced has another number, and is ignored.
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

// disarm removes the alarm. Its callback, if it is under way, is ignored.
func (g *group) disarm() {
	if g.alarm.kind != alarmNone {
		// The number changes here, too: the round stops its timer when it differs (round.setTimer).
		g.alarm = alarm{number: g.alarm.number + 1}
	}
}

// armed reports whether the alarm ends the present phase.
func (g *group) armed() bool { return g.alarm.kind != alarmNone && g.alarm.phase == g.phase }
