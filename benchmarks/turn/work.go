// Package turn has the work that each program of the comparison does, and measures it.
//
// A session has three turns of a scripted model: two tool calls at once, one call, the answer. Its
// instructions and its prompt have 2 KB each; it has ten tools, functions of the program with four
// typed arguments whose result has 100 bytes.
package turn

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Turns is how many turns a session has.
const Turns = 3

// Instructions are the same in all sessions.
var Instructions = fill("You plan journeys, and look things up with tools before you answer. ", 2048)

// Answer is what the model says at the end.
var Answer = fill("The weather will be fine. ", 1024)

// result is that of a tool.
var result = fill("Fine weather, 21 degrees. ", 100)

func fill(text string, n int) string { return strings.Repeat(text, n/len(text)+1)[:n] }

// Args are the arguments of each tool.
type Args struct {
	City   string `json:"city" description:"The name of the city"`
	Days   int    `json:"days" description:"How many days"`
	Units  string `json:"units" description:"Of temperatures"`
	Detail bool   `json:"detail" description:"Whether to say more"`
}

// Tools are the names of the tools.
var Tools = func() (names []string) {
	for n := range 10 {
		names = append(names, "look_up_"+strconv.Itoa(n))
	}
	return names
}()

// Description is that of each tool.
const Description = "Looks up the weather of a city for some days."

// Schema is that of the arguments of each tool.
const Schema = `{"type":"object","properties":{"city":{"type":"string","description":"The name of the city"},` +
	`"days":{"type":"integer","description":"How many days"},"units":{"type":"string","description":"Of temperatures"},` +
	`"detail":{"type":"boolean","description":"Whether to say more"}},"required":["city","days","units","detail"],"additionalProperties":false}`

// Do is what each tool does.
func Do(a Args) (string, error) {
	if a.City == "" || a.Days == 0 {
		return "", errors.New("the arguments were lost")
	}
	return result, nil
}

// Call is a call of a tool that the model asks for. Arguments is JSON.
type Call struct{ ID, Tool, Arguments string }

const arguments = `{"city":"Lisbon","days":5,"units":"celsius","detail":true}`

// script is what the model says, by how many results it has got.
var script = map[int][]Call{
	0: {{"call-1", "look_up_3", arguments}, {"call-2", "look_up_7", arguments}},
	2: {{"call-3", "look_up_1", arguments}},
	3: nil,
}

// says is what the model says to so many results.
func says(results int) (calls []Call, text string, err error) {
	calls, ok := script[results]
	switch {
	case !ok:
		err = fmt.Errorf("the model got %d results", results)
	case calls == nil:
		text = Answer
	}
	return calls, text, err
}

const promptStart = "Session "

// prompt is that of a session; it begins with its number.
func prompt(session int) string {
	return fmt.Sprintf("%s%08d. %s", promptStart, session, promptText)
}

var promptText = fill("Where should I travel next week, and what do I take along? ", 2030)

// number is that of the session to which a prompt belongs.
func number(prompt string) (int, bool) {
	text, ok := strings.CutPrefix(prompt, promptStart)
	if !ok || len(text) < 8 {
		return 0, false
	}
	n, err := strconv.Atoi(text[:8])
	return n, err == nil
}
