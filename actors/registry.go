package actors

import (
	"github.com/asynkron/protoactor-go/actor"
	cmap "github.com/orcaman/concurrent-map"
)

// registryBuckets is how many maps of 32 shards the registry of processes has.
// The library makes 1,024: 3 MB in 66,000 objects, which every garbage collection
// marks, a tenth of the CPU of a small busy server.
const registryBuckets = 16

// shrinkRegistry gives a new system a registry of a size that fits one process.
// It holds two processes by then (a contract test counts them).
func shrinkRegistry(lib *actor.ActorSystem) {
	small := &actor.SliceMap{LocalPIDs: make([]cmap.ConcurrentMap, registryBuckets)}
	for i := range small.LocalPIDs {
		small.LocalPIDs[i] = cmap.New()
	}
	for _, id := range builtIn {
		if p, ok := lib.ProcessRegistry.GetLocal(id); ok {
			small.GetBucket(id).Set(id, p)
		}
	}
	lib.ProcessRegistry.LocalPIDs = small
}

// builtIn are the processes that a new system has.
var builtIn = []string{"deadletter", "eventstream"}
