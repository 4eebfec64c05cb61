// Package llmtest stands in for language models in tests and demonstrations.
//
// A script is a list of turns. [Script] plays it as a [llm.Model]:
//
//	m := llmtest.Script(
//		llmtest.Call("read_file", `{"path":"notes.txt"}`), // the model's first turn
//		llmtest.Say("There are three notes."),             // after the tool's result
//	)
//
// [NewServer] plays the same script over HTTP, as OpenAI and as Ollama speak, with every
// way to fail that has been seen of them:
//
//	s := llmtest.NewServer(llmtest.Say("Hel", "lo").Over(llmtest.Wire{Fault: llmtest.Cut, After: 2}))
//	srv := httptest.NewServer(s)
//
// What was asked is recorded. Waiting is done with timers of package time, so scripts run
// in testing/synctest bubbles. Models and servers may be used by many goroutines at
// once: turns are handed out in the order in which they are asked for.
package llmtest
