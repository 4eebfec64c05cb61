package actors

import (
	"log/slog"
	"reflect"
	"slices"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
)

// A system that makeLibrary makes has what the library's constructor gives it.
func TestContractMakeLibrary(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	theirs := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return log }))
	ours := makeLibrary(log)
	if n := len(ours.ProcessRegistry.LocalPIDs.LocalPIDs); n != registryBuckets {
		t.Errorf("the registry has %d maps: the library's constructor made it", n)
	}
	for i := range reflect.TypeFor[actor.ActorSystem]().NumField() {
		field := reflect.TypeFor[actor.ActorSystem]().Field(i)
		a, b := reflect.ValueOf(theirs).Elem().Field(i), reflect.ValueOf(ours).Elem().Field(i)
		if field.Name != "ID" && a.IsZero() != b.IsZero() { // it appears in nothing of ours
			t.Errorf("%s: got %v, want %v", field.Name, b, a)
		}
	}
	if got, want := processes(ours), processes(theirs); !slices.Equal(got, want) {
		t.Errorf("processes: got %v, want %v", got, want)
	}
	if got, want := ours.Address(), theirs.Address(); got != want {
		t.Errorf("address: got %q, want %q", got, want)
	}
	if got, want := ours.Extensions.Get((*actor.Metrics)(nil).ExtensionID()), theirs.Extensions.Get((*actor.Metrics)(nil).ExtensionID()); !reflect.DeepEqual(got, want) {
		t.Errorf("metrics: got %v, want %v", got, want)
	}
	if ours.Logger() != log {
		t.Error("another logger")
	}
	pid := ours.Root.Spawn(actor.PropsFromFunc(func(actor.Context) {}))
	if _, ok := ours.ProcessRegistry.Get(pid); !ok {
		t.Error("a new actor is not found")
	}
	ours.Root.Stop(pid)
	if ours.Shutdown(); !ours.IsStopped() {
		t.Error("not stopped after Shutdown")
	}
}

func processes(lib *actor.ActorSystem) (ids []string) {
	for _, bucket := range lib.ProcessRegistry.LocalPIDs.LocalPIDs {
		ids = append(ids, bucket.Keys()...)
	}
	return slices.Sorted(slices.Values(ids))
}
