// Package console serves web pages over a store: what waits for a person, with a form to answer
// it, and every run with its steps. It is for one person on one machine, or behind a login of
// yours for several.
//
//	c, err := console.Handler(rt, nil)
//	…
//	go http.ListenAndServe("127.0.0.1:8440", c)
//	fmt.Println("open", "http://127.0.0.1:8440"+c.LoginPath())
//
// Questions and runs need nothing but what a [store.Store] has, so that any process which shares the
// store can serve them, with [New]: an answer that is given here counts in whatever process the run is.
// The pages are read without script; a small one keeps them current.
//
// # Access
//
// Without [Options].Visitor a browser gets in by a login link, which counts once and for ten
// minutes, and stays for twelve hours. The console then answers on loopback names only: a page of
// another site that reaches it by a name of its own (DNS rebinding) is refused. With a Visitor,
// [Options].Hosts says by which names. [Users] and [OIDC] are logins for several people.
//
// A [Viewer] looks, an [Answerer] answers questions too, an [Operator] does all else. A form of another site is refused. All that
// models, servers and people have written is shown as text.
package console
