// Package router makes one [llm.Model] of several.
//
// A [Card] says what a model can do and what it is good at. The router takes, for each
// turn, the cards that can do what the turn needs, and of those the one that fits the
// caller's preferences best:
//
//	r, err := router.New([]router.Card{
//		{Model: ollama.New("qwen3:8b", nil), Tools: true, JSON: true, Context: 40_960},
//		{Model: openai.New("gpt-5-mini", opts), Tools: true, Vision: true, JSON: true},
//	}, nil)
//	resp, err := llm.Generate(ctx, r, req)
//
// The steps, each of which says its reason in words:
//
//  1. models that lack what the turn needs (images, audio, tools, JSON, room for the
//     conversation), or that are not allowed for it, fall out;
//  2. the first hint that is a part of a name or an alias leaves only those;
//  3. the priorities for cost, speed and intelligence weigh what is left; without any
//     the default model is taken;
//  4. a tie goes to the card that was registered first.
//
// When the model that was asked fails in a way that is its server's, the next one is asked.
//
// # What is promised
//
// The same cards and the same request give the same choice. A model that lacks a need is
// never asked. A turn of which something has been passed on is not begun again, unless
// the one who asked allows it ([llm.Observer.Restart]). A Router has no state of its own
// and starts no goroutine; all methods may be called at the same time.
package router
