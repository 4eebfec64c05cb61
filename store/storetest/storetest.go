// Package storetest is the test suite that every store passes.
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) store.Store { … })
//	}
//
// Each test opens a store of its own, which must be empty, must use time.Now as
// its clock and should be closed by t.Cleanup. Some are opened inside of a
// testing/synctest bubble, so open may not use anything made outside of it that
// blocks. [Benchmark] compares stores with each other.
package storetest

import (
	"testing"

	"github.com/troupe-dev/troupe/store"
)

// Run runs the suite.
func Run(t *testing.T, open func(t *testing.T) store.Store) {
	tests := []struct {
		name string
		run  func(t *testing.T, open func(t *testing.T) store.Store)
	}{
		{"Create", testCreate},
		{"CreateExists", testCreateExists},
		{"CreateImported", testCreateImported},
		{"CreateRace", testCreateRace},
		{"AppendOrder", testAppendOrder},
		{"AppendState", testAppendState},
		{"AppendAllOrNothing", testAppendAllOrNothing},
		{"AppendWriters", testAppendWriters},
		{"AppendOneRun", testAppendOneRun},
		{"AppendRepeat", testAppendRepeat},
		{"AppendConflict", testAppendConflict},
		{"AppendAsks", testAppendAsks},
		{"AppendSettleExpired", testAppendSettleExpired},
		{"AppendEndsJob", testAppendEndsJob},
		{"StartCreate", testStartCreate},
		{"StartAdd", testStartAdd},
		{"StartClaim", testStartClaim},
		{"StartAppend", testStartAppend},
		{"StartAppendOrder", testStartAppendOrder},
		{"StartAppendClosed", testStartAppendClosed},
		{"StartAppendCloseRace", testStartAppendCloseRace},
		{"EventPages", testEventPages},
		{"RunPages", testRunPages},
		{"RunQueries", testRunQueries},
		{"Delete", testDelete},
		{"PruneRuns", testPruneRuns},
		{"PruneJobs", testPruneJobs},
		{"PruneSelected", testPruneSelected},
		{"Fencing", testFencing},
		{"DeleteFences", testDeleteFences},
		{"LeaseExpiry", testLeaseExpiry},
		{"Release", testRelease},
		{"Tree", testTree},
		{"TreeOfJob", testTreeOfJob},
		{"TreeClaimed", testTreeClaimed},
		{"TreeReleased", testTreeReleased},
		{"TreeEnds", testTreeEnds},
		{"TreeOfEarlierAttempt", testTreeOfEarlierAttempt},
		{"TreeWithoutRoot", testTreeWithoutRoot},
		{"ClaimRace", testClaimRace},
		{"Ask", testAsk},
		{"AskRace", testAskRace},
		{"AskExpiry", testAskExpiry},
		{"AskQueries", testAskQueries},
		{"Approvals", testApprovals},
		{"Pins", testPins},
		{"Records", testRecords},
		{"RecordExpiry", testRecordExpiry},
		{"RecordLimits", testRecordLimits},
		{"Vault", testVault},
		{"VaultLeases", testVaultLeases},
		{"VaultRace", testVaultRace},
		{"SettledAsks", testSettledAsks},
		{"Job", testJob},
		{"JobKeys", testJobKeys},
		{"JobOrder", testJobOrder},
		{"JobLeases", testJobLeases},
		{"JobLeasesOwn", testJobLeasesOwn},
		{"JobWaits", testJobWaits},
		{"JobRests", testJobRests},
		{"JobLosses", testJobLosses},
		{"JobGoesOn", testJobGoesOn},
		{"JobRace", testJobRace},
		{"Backlog", testBacklog},
		{"JobCancel", testJobCancel},
		{"JobCancelledMeanwhile", testJobCancelledMeanwhile},
		{"JobUntold", testJobUntold},
		{"JobQueries", testJobQueries},
		{"JobStates", testJobStates},
		{"JobLimits", testJobLimits},
		{"Schedules", testSchedules},
		{"ScheduleNext", testScheduleNext},
		{"HostileNames", testHostileNames},
		{"BadNames", testBadNames},
		{"Limits", testLimits},
		{"LargeBodies", testLargeBodies},
		{"PageBytes", testPageBytes},
		{"Times", testTimes},
		{"NoAliasing", testNoAliasing},
		{"Cancelled", testCancelled},
		{"Closed", testClosed},
		{"CloseRace", testCloseRace},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { tt.run(t, open) })
	}
}
