// Package eventhook is the door from the encoder of a run's events into the stores: they neither
// check JSON that was encoded a moment before, nor copy what nothing else holds. Package store
// registers the functions when it is initialized.
package eventhook

// Hooks are the functions. Event is the type of that name in store, which this package cannot import.
type Hooks[Event any] struct {
	// HandOver marks an event whose body is valid JSON, and from now on the store's: nothing changes
	// it any more. The mark does not hold for a body that is put in its place.
	HandOver func(*Event)
	// HandedOver reports whether an event has the mark.
	HandedOver func(*Event) bool
}

var registered any

// Register sets the hooks.
func Register[Event any](hooks *Hooks[Event]) { registered = hooks }

// Get returns the hooks. Event is the type that store has registered; any other panics.
func Get[Event any]() *Hooks[Event] { return registered.(*Hooks[Event]) }
