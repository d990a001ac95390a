// Module dte08 computes the liquidation voucher (DTE-08).
package main

import "dtegate/plugins/sdk"

func init() { sdk.Register(description, evaluate) }

func main() {}
