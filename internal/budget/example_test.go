package budget_test

import (
	"fmt"

	"github.com/troupe-dev/troupe/internal/budget"
)

func Example() {
	run := budget.New("run r1", budget.Limits{Tokens: 1000})
	helper, _ := run.Child("helper", budget.Limits{})

	hold, output, _ := helper.ReserveTurn(budget.Turn{Input: 300})
	fmt.Println("the turn may say", output, "tokens")
	_, err := run.Reserve(budget.Amount{Tokens: 1})
	fmt.Println(err)

	hold.Settle(budget.Amount{Tokens: 420, ModelCalls: 1})
	fmt.Println("left:", run.Left().Tokens)
	// Output:
	// the turn may say 700 tokens
	// the run has reached its limit: 1000 tokens (what comes next may take 1, and 0 are left)
	// left: 580
}
