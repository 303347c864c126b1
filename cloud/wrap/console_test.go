package wrap_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/wrap"
)

// consoles is an account whose guests write this.
type consoles struct {
	*account

	text string
	err  error
}

func (a consoles) Console(ctx context.Context, _ cloud.Ref) (string, error) {
	a.count("console")
	if _, limited := ctx.Deadline(); !limited {
		return "", errors.New("no time limit")
	}
	return a.text, a.err
}

// TestConsolesPassThrough: a console is reached through all decorators, which bound its time, keep it within
// the account's rate, and take the account's secrets out of the text and of errors.
func TestConsolesPassThrough(t *testing.T) {
	t.Parallel()
	now := newClock()
	fake := consoles{account: &account{}, text: "key s3cret-value\n"}
	around := func(a cloud.Account) cloud.Account {
		for _, w := range wrap.Standard(wrap.Options{Now: now.Now, Rand: never, Rate: wrap.Rate{PerSecond: 1, Burst: 1}}) {
			a = w(info("s3cret-value"), a)
		}
		return a
	}
	a := around(fake)
	if text, err := cloud.Console(t.Context(), a, cloud.Ref{}); err != nil || text != "key [redacted]\n" {
		t.Errorf("got %q, %v, want the console without the secret", text, err)
	}
	_, err := cloud.Console(t.Context(), a, cloud.Ref{})
	if cloud.CodeOf(err) != cloud.Throttled || fake.made("console") != 1 {
		t.Errorf("got %v after %d calls, want the account's own limit", err, fake.made("console"))
	}
	fake.text, fake.err = "", errors.New("refused with s3cret-value")
	_, err = cloud.Console(t.Context(), around(fake), cloud.Ref{})
	if err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("got %v, want an error without the secret", err)
	}
}
