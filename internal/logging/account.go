package logging

import (
	"context"
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/wrap"
)

// Account is a cloud.Middleware that logs calls that fail, with the wait before the next
// try where the cloud asks for one, and deletions that are not done. It belongs around the
// one that redacts errors. That there is no VM to get is an answer.
func Account(info cloud.AccountInfo, next cloud.Account) cloud.Account {
	return wrap.Observe(observerOf)(info, next)
}

func observerOf(info cloud.AccountInfo) wrap.Observer {
	provider := info.Driver.Name
	return func(ctx context.Context, operation string, r cloud.Ref) (context.Context, func(wrap.Answer)) {
		return ctx, func(a wrap.Answer) {
			l := log.FromContext(ctx).V(verbosityRetries)
			switch {
			case !l.Enabled(), operation == wrap.OpGet && cloud.CodeOf(a.Err) == cloud.NotFound:
			case a.Deletion != nil && !a.Deletion.Done:
				l.Info("VM is still being deleted", "provider", provider, "machine", r.Name, "ownerID", r.OwnerID,
					"providerID", r.ProviderID, "remaining", a.Deletion.Remaining, "retryAfter", a.Deletion.RetryAfter)
			case a.Err != nil:
				values := []any{
					"provider", provider, "operation", operation, "class", r.Class.Name, "machine", r.Name, "ownerID", r.OwnerID,
					"providerID", r.ProviderID, "code", cloud.CodeOf(a.Err).String(), "cause", a.Err.Error(),
				}
				if e, ok := errors.AsType[*cloud.Error](a.Err); ok {
					values = append(values, "reason", e.Reason, "retryAfter", e.RetryAfter)
				}
				l.Info("Cloud call failed", values...)
			}
		}
	}
}
