package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/actors/conn"
)

// Each bad server is a real process, beside a good one in the same host: its own
// calls end with a clear error, and the good one never notices.
func TestHostileServers(t *testing.T) {
	tests := []struct {
		mode string
		is   error  // what its call ends with
		says string // in the error
		list bool   // it fails before it has tools
	}{
		{mode: "dies", says: "cannot open the database", list: true},
		{mode: "garbage", says: "no messages", list: true},
		{mode: "silent", is: conn.ErrConnectTimeout, list: true},
		{mode: "huge", is: ErrMessageTooLong, list: true},
		{mode: "missing", is: exec.ErrNotFound, says: "troupe-no-such-command", list: true},
		{mode: "twice"},
		{mode: "stubborn"},
		{mode: "orphan"},
		{mode: "deep", is: call.ErrInvalidResponse},
		{mode: "duplicate", is: call.ErrInvalidResponse},
		{mode: "idtype", is: call.ErrTimeout},
		{mode: "mute", is: call.ErrTimeout},
	}
	if testing.Short() {
		t.Skip("starts processes")
	}
	for _, tt := range tests {
		t.Run(tt.mode, func(t *testing.T) {
			t.Parallel()
			bad := childServer(tt.mode)
			bad.Protocol = ProtocolLegacy // the probe has tests of its own
			bad.ConnectTimeout, bad.IdleTimeout = time.Minute, time.Minute
			switch { // only where it must run out: on a busy machine a process takes its time
			case errors.Is(tt.is, conn.ErrConnectTimeout):
				bad.ConnectTimeout = 3 * time.Second
			case errors.Is(tt.is, call.ErrTimeout):
				bad.IdleTimeout = 2 * time.Second
			case tt.mode == "missing":
				bad.Command = "troupe-no-such-command"
			}
			good := childServer("good")
			h, err := NewHost(realSystem(t), []Server{bad, good}, &HostOptions{Options: Options{ProbeTimeout: 30 * time.Second}})
			if err != nil {
				t.Fatal(err)
			}
			defer closeHost(t, h)
			if _, err := h.Tools(t.Context()); err != nil {
				t.Fatal(err)
			}
			var failure error
			if tt.list {
				failure = h.Servers()[0].ListErr
			} else {
				_, failure = h.Call(t.Context(), tt.mode+"__echo", nil, nil)
			}
			checkFailure(t, failure, tt.mode, tt.is, tt.says)
			if res, err := h.Call(t.Context(), "good__echo", json.RawMessage(`{}`), nil); err != nil || len(res.Content) != 1 {
				t.Errorf("the good server: got %v, %v", res, err)
			}
		})
	}
}

func checkFailure(t *testing.T, err error, server string, is error, says string) {
	t.Helper()
	if is == nil && says == "" {
		if err != nil {
			t.Errorf("got %v, want a result", err)
		}
		return
	}
	var named *ServerError
	if !errors.As(err, &named) || named.Server != server {
		t.Fatalf("got %v, want an error that names server %s", err, server)
	}
	if is != nil && !errors.Is(err, is) {
		t.Errorf("got %v, want %v", err, is)
	}
	if !strings.Contains(err.Error(), says) {
		t.Errorf("got %v, want it to say %q", err, says)
	}
}

func closeHost(t *testing.T, h *Host) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := h.Shutdown(ctx); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// Killing a server in the middle of a call ends that call with a clear error; the
// server is started again and the next call works.
func TestKilledServerComesBack(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	goroutines := runtime.NumGoroutine()
	sys := realSystem(t)
	h, err := NewHost(sys, []Server{childServer("good")}, &HostOptions{Options: Options{ProbeTimeout: 30 * time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Call(t.Context(), "good__echo", nil, nil); err != nil {
		t.Fatal(err)
	}
	c, err := h.Client("good")
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.CallTool(t.Context(), "die", nil, nil)
	if !errors.Is(err, call.ErrConnectionLost) || !strings.Contains(err.Error(), "exit status 9") {
		t.Errorf("the call: got %v, want the connection lost and exit status 9", err)
	}
	if _, err := h.Call(t.Context(), "good__echo", nil, nil); err != nil {
		t.Errorf("the next call: got %v", err)
	}
	if s := h.Servers()[0]; s.Generation != 2 || s.Tools != 1 {
		t.Errorf("got generation %d and %d tools, want 2 and 1", s.Generation, s.Tools)
	}
	closeHost(t, h)
	if n := sys.Census().Live(); n != 0 {
		t.Errorf("actors left: %+v", sys.Census().Actors)
	}
	for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > goroutines+8; runtime.Gosched() { // idle workers of the system
		if time.Now().After(end) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), goroutines)
		}
	}
}

// A command is never given to a shell, and sees the minimal environment only.
func TestNoShell(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	t.Setenv("TROUPE_TEST_SECRET", "hidden")
	s := Command("env", "$HOME; exit 3")
	s.Protocol = ProtocolLegacy
	_, err := Dial(t.Context(), s, &Options{System: realSystem(t)})
	if err == nil || !strings.Contains(err.Error(), "$HOME; exit 3") || strings.Contains(err.Error(), os.Getenv("HOME")+";") {
		t.Errorf("Dial: got %v, want env to complain of a file with that name", err)
	}
}
