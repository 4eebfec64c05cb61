package benchmarks

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcpclient"
)

// BenchmarkConnect connects 20 stdio servers at once and lists their tools. With -benchtime 1x it
// is the first use of the process, which has everything still to make.
// cpu-ms/op is the CPU time of the client's process alone.
func BenchmarkConnect(b *testing.B) {
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	server, name := mcpclient.Command(exe, "-test.run=^$"), "ten"
	server.Env = map[string]*string{role: &name}
	for _, protocol := range []string{mcpclient.ProtocolLegacy, mcpclient.ProtocolAuto} {
		b.Run(protocol, func(b *testing.B) {
			server.Protocol = protocol
			connectTwenty(b, server)
		})
	}
}

func connectTwenty(b *testing.B, server mcpclient.Server) {
	const servers = 20
	var used time.Duration
	for b.Loop() {
		sys, err := actors.NewSystem(nil)
		if err != nil {
			b.Fatal(err)
		}
		opts := &mcpclient.Options{System: sys}
		clients := make(chan *mcpclient.Client, servers)
		before := ownCPU(b)
		for range servers {
			go func() {
				c, err := mcpclient.Dial(b.Context(), server, opts)
				if err != nil {
					b.Error(err)
				} else if tools, err := c.ListTools(b.Context()); err != nil || len(tools) != 10 {
					b.Error(len(tools), err)
				}
				clients <- c
			}()
		}
		all := make([]*mcpclient.Client, servers)
		for i := range all {
			all[i] = <-clients
		}
		used += ownCPU(b) - before
		b.StopTimer()
		for _, c := range all {
			if c != nil {
				go func() { _ = c.Close(); clients <- nil }()
			} else {
				clients <- nil
			}
		}
		for range all {
			<-clients
		}
		sys.Shutdown(context.Background())
		b.StartTimer()
	}
	b.ReportMetric(used.Seconds()*1e3/float64(b.N), "cpu-ms/op")
}

// ownCPU returns the CPU time that this process has used, user and system, without its children.
func ownCPU(b *testing.B) time.Duration {
	b.Helper()
	used, err := processCPU(os.Getpid())
	if err != nil {
		b.Skip(err)
	}
	return used
}
