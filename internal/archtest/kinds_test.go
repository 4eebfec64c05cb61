package archtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/actors"
)

// failures names for each kind of actor a test in which one of them is killed or panics,
// and which looks for one outcome of its own work, and no harm to that of others.
var failures = map[actors.Kind]string{
	actors.KindRuntime:      "actors/supervise_test.go TestSupervision",
	actors.KindLLM:          "actors/provider/outcome_test.go TestPanicAtEveryMessage",
	actors.KindProvider:     "actors/provider/outcome_test.go TestOneOutcome",
	actors.KindCompletion:   "actors/provider/outcome_test.go TestOneOutcome",
	actors.KindHost:         "mcpclient/host_test.go TestHostRestart",
	actors.KindTenant:       "mcpclient/tenanthost_test.go TestTenantHostFails",
	actors.KindClient:       "actors/conn/conn_test.go TestCrash",
	actors.KindTransport:    "actors/conn/killed_test.go TestTransportFails",
	actors.KindCall:         "actors/call/call_test.go TestKill",
	actors.KindServer:       "mcpserver/looptask_test.go TestLoopOfServerThatRestarts",
	actors.KindSession:      "mcpserver/http_test.go TestWebSharedSessionFails",
	actors.KindInbound:      "actors/inbound/inbound_test.go TestOutcomes",
	actors.KindInvocation:   "mcpserver/askkilled_test.go TestInvocationKilled",
	actors.KindElicitation:  "actors/elicit/elicit_test.go TestEnds",
	actors.KindSubscription: "actors/watch/listen_test.go TestEnds",
	actors.KindTask:         "mcpserver/askkilled_test.go TestTaskActorKilled",
	actors.KindAgents:       "agent/subagentdies_test.go TestAgentsRestart",
	actors.KindRun:          "actors/loop/subrun_test.go TestASubRunDies",
	actors.KindLoop:         "mcpserver/loopcancel_test.go TestLoopKilled",
	actors.KindInbox:        "mcpclient/follow_test.go TestInboxIsKilled",
	actors.KindHooks:        "internal/jobapi/hooks_test.go TestHookKilled",
	actors.KindHook:         "internal/jobapi/hooks_test.go TestHookKilled",
	actors.KindWorker:       "agent/worker/fails_test.go TestWorkerFails",
	actors.KindJob:          "agent/worker/fails_test.go TestJobFails",
	actors.KindKeeper:       "mcpclient/auth/supervise_test.go TestKeeperPanics",
}

// TestEveryKindHasAFailure holds that a kind of actor does not come without a test of what
// its failure does.
func TestEveryKindHasAFailure(t *testing.T) {
	for _, kind := range actors.Kinds() {
		file, name, _ := strings.Cut(failures[kind], " ")
		src, err := os.ReadFile(filepath.Join(root(t), filepath.FromSlash(file)))
		if file == "" || err != nil || !strings.Contains(string(src), "\nfunc "+name+"(t *testing.T)") {
			t.Errorf("%v: no test of its failure, want %q: %v", kind, failures[kind], err)
		}
	}
}
