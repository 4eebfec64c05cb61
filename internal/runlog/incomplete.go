package runlog

import (
	"encoding/json"
	"iter"
	"strings"

	"github.com/troupe-dev/troupe/llm"
)

// What an answer lacks, where it is not whole: [RunFinished].Incomplete.
const (
	IncompleteLength = "length"         // [llm.FinishLength]
	IncompleteFilter = "content_filter" // [llm.FinishContentFilter]
	IncompleteEmpty  = "empty"          // the model has said nothing
	IncompleteCall   = "call_as_text"   // [CallAsText]
)

// Incomplete says what an answer without calls lacks, empty if it is whole. Tools are the names of those that the model was offered.
func Incomplete(finish llm.FinishReason, text string, structured json.RawMessage, tools iter.Seq[string]) string {
	switch {
	case Cut(finish):
		return string(finish)
	case strings.TrimSpace(text) == "" && len(structured) == 0:
		return IncompleteEmpty
	case len(structured) == 0 && CallAsText(text, tools):
		return IncompleteCall
	}
	return ""
}

// Cut reports whether a turn has ended before the model was at its end.
func Cut(finish llm.FinishReason) bool {
	return finish == llm.FinishLength || finish == llm.FinishContentFilter
}

// CutCall reports whether a turn has ended in the middle of a call; spoilt are its calls that are not made.
func CutCall(finish llm.FinishReason, spoilt []string) bool { return Cut(finish) && len(spoilt) > 0 }

// CutBy says what has cut a turn.
func CutBy(finish llm.FinishReason) string {
	if finish == llm.FinishContentFilter {
		return "the provider's content filter"
	}
	return "the limit of output tokens"
}

// WhyIncomplete says in a sentence what an answer lacks; empty for a whole one.
func WhyIncomplete(what string) string {
	switch what {
	case "":
		return ""
	case IncompleteEmpty:
		return "the answer is empty"
	case IncompleteCall:
		return "the answer is a call that the model wrote as text, so it was not made: the model, or the template that its server has for it, does not do tool calls"
	}
	return "the answer is not complete: " + CutBy(llm.FinishReason(what)) + " cut it"
}
