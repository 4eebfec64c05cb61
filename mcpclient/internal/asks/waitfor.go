package asks

import "github.com/troupe-dev/troupe/actors/call"

// WaitFor has the call sent again once what it waits for has ended well: await calls resume once.
// Its clocks stand still meanwhile. Failed makes the call's error of one of the wait.
func (t *Call) WaitFor(await func(resume func(error)) (leave func()), failed func(error) error) call.Step {
	return call.Step{Wait: func(resume func(call.Step)) func(error) {
		t.Wait(1)
		leave := await(func(err error) {
			t.Wait(-1)
			if err != nil {
				resume(call.Step{Outcome: &call.Outcome{Err: failed(err)}})
				return
			}
			resume(call.Step{Retry: &call.Retry{Params: t.Params(), Headers: t.Headers}})
		})
		return func(error) { leave() }
	}}
}
