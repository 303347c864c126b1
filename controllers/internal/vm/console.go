package vm

import (
	"context"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// Console returns the end of the console of the machine's VM, without the account's secrets. It
// changes nothing, and takes no longer than wrap.Timeout lets it.
func (e *Engine) Console(ctx context.Context, m *Machine) (string, error) {
	account, err := e.Account(ctx, m)
	if err != nil {
		return "", err
	}
	return cloud.Console(ctx, account, m.Ref())
}
