// Module dte01 computes the consumer invoice (DTE-01).
package main

import "dtegate/plugins/sdk"

func init() { sdk.Register(description, evaluate) }

func main() {}
