package worker_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/mcptest"
	"github.com/troupe-dev/troupe/store"
)

// TestFullDisk: on a disk that is really full a worker does nothing twice, says so, and
// goes on once there is room (SECA-9). It needs the right to mount.
func TestFullDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes; not with -short")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=24m"); err != nil {
		mcptest.Lacks(t, "the right to mount a small disk", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	f := newFleetAt(t, filepath.Join(dir, "troupe.db"))
	var ids []string
	for i := range 30 {
		ids = append(ids, f.add(store.Job{ID: fmt.Sprint("unsafe-", i), Agent: "a", Prompt: "unsafe"}))
	}
	filler := filepath.Join(dir, "filler")
	fill(t, filler)
	p := f.start(ctx, "a")
	f.wait(ctx, 2*time.Second)
	counts, err := f.store.JobCounts(ctx)
	if err != nil || counts[store.JobDone] == len(ids) {
		t.Fatalf("on a full disk: got %v, %v, want jobs that are not done", counts, err)
	}
	t.Logf("on the full disk: %v", counts)
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	f.until(ctx, "all jobs", func() bool { return f.left(ctx) == 0 })
	f.end(ctx, p)
	effects := f.effects()
	for _, id := range ids {
		j, err := f.store.Job(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		if n := effects[id]; n > 1 || j.State == store.JobDone && n != 1 {
			t.Errorf("job %q is %s (%s): got %d effects", id, j.State, j.Error, n)
		}
	}
	counts, err = f.store.JobCounts(ctx)
	t.Logf("with room again: %v, %v", counts, err)
}

// fill writes until nothing fits any more.
func fill(t *testing.T, name string) {
	t.Helper()
	out, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	for block := make([]byte, 512); ; {
		if _, err := out.Write(block); err != nil {
			return
		}
	}
}
