package actors

import (
	"log/slog"
	"reflect"
	"unsafe"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/eventstream"
	"github.com/asynkron/protoactor-go/extensions"
	cmap "github.com/orcaman/concurrent-map"
)

// registryBuckets is how many maps of 32 shards the registry of processes has.
// The library makes 1,024: 3 MB in 66,000 objects, which take some milliseconds to make
// and which every garbage collection marks.
const registryBuckets = 4

// makeLibrary returns a system of the library with a registry of a size that fits one
// process. The library's own constructor makes the large one first, so what it does is
// done here; for a library whose system has other fields than these it is called.
//
// The events have no subscribers: those of the library log what the kit logs better, start
// a goroutine for a dead letter, and answer watchers, of which the kit has none.
func makeLibrary(log *slog.Logger) *actor.ActorSystem {
	options := actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return log })
	lib := new(actor.ActorSystem)
	if !setHidden(lib, log) {
		lib = actor.NewActorSystem(options)
		lib.EventStream = eventstream.NewEventStream()
		return lib
	}
	lib.Config = actor.Configure(options)
	lib.ProcessRegistry = &actor.ProcessRegistryValue{ActorSystem: lib, Address: "nonhost", LocalPIDs: newRegistry()}
	lib.Root = actor.NewRootContext(lib, actor.EmptyMessageHeader)
	lib.Guardians = actor.NewGuardians(lib)
	lib.EventStream = eventstream.NewEventStream()
	lib.DeadLetter = actor.NewDeadLetter(lib)
	lib.Extensions = extensions.NewExtensions()
	lib.Extensions.Register(actor.NewMetrics(lib, nil))
	lib.ProcessRegistry.Add(actor.NewEventStreamProcess(lib), "eventstream")
	lib.EventStream = eventstream.NewEventStream() // without the subscribers of the dead letters
	return lib
}

func newRegistry() *actor.SliceMap {
	small := &actor.SliceMap{LocalPIDs: make([]cmap.ConcurrentMap, registryBuckets)}
	for i := range small.LocalPIDs {
		small.LocalPIDs[i] = cmap.New()
	}
	return small
}

// libraryFields is how many fields the library's system has.
const libraryFields = 10

// setHidden sets the fields that only the library's constructor can set: the logger, and
// the channel that Shutdown closes. It returns false, and sets nothing, if the fields are
// others.
func setHidden(lib *actor.ActorSystem, log *slog.Logger) bool {
	v := reflect.ValueOf(lib).Elem()
	logger, stopper := v.FieldByName("logger"), v.FieldByName("stopper")
	if v.NumField() != libraryFields || !logger.IsValid() || !stopper.IsValid() ||
		logger.Type() != reflect.TypeFor[*slog.Logger]() || stopper.Type() != reflect.TypeFor[chan struct{}]() {
		return false
	}
	*(**slog.Logger)(unsafe.Pointer(logger.UnsafeAddr())) = log
	*(*chan struct{})(unsafe.Pointer(stopper.UnsafeAddr())) = make(chan struct{})
	return true
}
