package admin_test

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"github.com/troupe-dev/troupe/internal/admin"
)

// inspector has one server, whose name needs escaping.
type inspector struct{ retried int }

const odd = "a/b c%2F?#é"

func (*inspector) Servers() []admin.ServerState {
	return []admin.ServerState{{Name: odd, State: "backoff", Error: "it is gone"}}
}

func (i *inspector) Server(_ context.Context, name string) (*admin.ServerDetail, error) {
	if name != odd {
		return nil, admin.ErrNoServer
	}
	return &admin.ServerDetail{ServerState: i.Servers()[0], All: []admin.ToolState{{Name: "t", Pin: admin.PinSame}}, Log: "line"}, nil
}

func (i *inspector) Reconnect(name string) error {
	if name != odd {
		return admin.ErrNoServer
	}
	i.retried++
	return nil
}

func (*inspector) Providers() []admin.ProviderState {
	return []admin.ProviderState{{Name: "openai", Circuit: "open", Failures: 5}}
}

// Another process gets over the socket what this one gets directly.
func TestInspector(t *testing.T) {
	i := new(inspector)
	o := admin.Options{System: newSystem(t), Inspector: i}
	socket, local := listen(t, folder(t), o), admin.NewLocal(o)
	type process interface {
		Servers(context.Context) ([]admin.ServerState, error)
		ServerNamed(context.Context, string) (*admin.ServerDetail, error)
		Reconnect(context.Context, string) error
		Models(context.Context) ([]admin.ProviderState, error)
	}
	for _, p := range []process{socket, local} {
		if got, err := p.Servers(t.Context()); err != nil || !reflect.DeepEqual(got, i.Servers()) {
			t.Errorf("%T: Servers: got %+v, %v", p, got, err)
		}
		want, _ := i.Server(t.Context(), odd)
		if got, err := p.ServerNamed(t.Context(), odd); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%T: ServerNamed: got %+v, %v", p, got, err)
		}
		if _, err := p.ServerNamed(t.Context(), "none"); !errors.Is(err, admin.ErrNoServer) {
			t.Errorf("%T: a server that does not exist: %v", p, err)
		}
		if err := p.Reconnect(t.Context(), "none"); !errors.Is(err, admin.ErrNoServer) {
			t.Errorf("%T: reconnecting a server that does not exist: %v", p, err)
		}
		if err := p.Reconnect(t.Context(), odd); err != nil {
			t.Errorf("%T: Reconnect: %v", p, err)
		}
		if got, err := p.Models(t.Context()); err != nil || !reflect.DeepEqual(got, i.Providers()) {
			t.Errorf("%T: Models: got %+v, %v", p, got, err)
		}
	}
	if i.retried != 2 {
		t.Errorf("got %d attempts, want 2", i.retried)
	}
	none := admin.NewLocal(admin.Options{})
	if _, err := none.ServerNamed(t.Context(), odd); !errors.Is(err, admin.ErrNoServer) {
		t.Errorf("a process without servers: %v", err)
	}
}
