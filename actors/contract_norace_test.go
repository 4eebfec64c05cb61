//go:build !race

package actors

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// The receive timeout fires once and is then off; between the clock and the
// mailbox it is a data race, so this is not built with the race detector. The
// kit's timers belong to the actor and ring by a message.
func TestContractReceiveTimeout(t *testing.T) {
	inBubble(t, func(t *testing.T, lib *actor.ActorSystem) {
		var got []string
		seen := note(&got)
		pid := lib.Root.Spawn(script(func(c actor.Context) {
			seen(c)
			if _, ok := c.Message().(*actor.Started); ok {
				c.SetReceiveTimeout(time.Second)
			}
		}))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		lib.Root.Send(pid, "hello")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		expect(t, "SetReceiveTimeout", got, []string{"Started", "ReceiveTimeout", "string"})
	})
}
