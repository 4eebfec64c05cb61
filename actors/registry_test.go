package actors

import (
	"log/slog"
	"slices"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
)

var quiet = actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) })

// The registry of a new system holds just what shrinkRegistry carries over.
func TestContractNewRegistry(t *testing.T) {
	lib := actor.NewActorSystem(quiet)
	var ids []string
	for _, bucket := range lib.ProcessRegistry.LocalPIDs.LocalPIDs {
		ids = append(ids, bucket.Keys()...)
	}
	slices.Sort(ids)
	if !slices.Equal(ids, builtIn) {
		t.Errorf("processes of a new system: got %v, want %v", ids, builtIn)
	}
}

func TestShrunkRegistry(t *testing.T) {
	lib := actor.NewActorSystem(quiet)
	shrinkRegistry(lib)
	for _, id := range builtIn {
		if _, ok := lib.ProcessRegistry.GetLocal(id); !ok {
			t.Errorf("%s is lost", id)
		}
	}
	props := actor.PropsFromFunc(func(actor.Context) {})
	pid := lib.Root.Spawn(props)
	if _, ok := lib.ProcessRegistry.Get(pid); !ok {
		t.Error("a new actor is not found")
	}
	lib.Root.Stop(pid)
}
