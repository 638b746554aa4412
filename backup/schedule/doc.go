// Package schedule decides when a schedule makes a backup, and which of its backups it deletes. It has no clock and no
// store: Decide is a function of the schedule, of its backups and of the time. Package node/backups executes it.
//
// The name of a backup, and the name of its job, follow from the schedule and the time for which the backup is made.
// Two nodes that both consider themselves responsible therefore work on the same backup, and not on two.
//
// For example, a schedule of every six hours from 02:00 that keeps two backups, and whose node was down at 14:00:
//
//	02:00  Make 02:00
//	08:00  Make 08:00
//	15:30  Make 14:00, which was missed; then Delete 02:00
//	20:00  Make 20:00; then Delete 08:00
//
// Three properties hold for all states and times (TestNodesShareASchedule):
//
//  1. The newest good backup is never deleted, and nothing is deleted without one.
//  2. For each time, at most one backup is made.
//  3. When nothing fails, the newest backup is of the last time that has passed.
package schedule
