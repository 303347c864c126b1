// Package manager is the manager as a library: the controllers of both APIs, their
// leases, metrics and servers, with whichever drivers a program links.
//
// A program for a cloud of one's own is a list of drivers around Run:
//
//	func main() {
//		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
//		defer stop()
//		options := manager.NewOptions("my-machine-manager", "v1.0.0")
//		options.AddFlags(pflag.CommandLine)
//		pflag.Parse()
//		if err := manager.Run(ctx, options, mycloud.NewDriver()); err != nil {
//			fmt.Fprintln(os.Stderr, err)
//			os.Exit(1)
//		}
//	}
//
// cmd/manager is such a program, with the drivers of this repository.
package manager
