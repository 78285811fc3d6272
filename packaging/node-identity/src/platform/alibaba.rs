// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Alibaba Cloud: <https://www.alibabacloud.com/help/en/ecs/user-guide/view-instance-metadata>
//!
//! The service is not link-local: 100.100.100.200 lies behind the default route. In hardened mode it wants a token
//! like EC2's, under other header names.

use crate::attempt::{Attempt, Failure};
use crate::context::Context;
use crate::names;

const BASE: &str = "http://100.100.100.200/latest";

fn token(context: &Context) -> Attempt<Option<String>> {
    let url = format!("{BASE}/api/token");
    let reply = context.client.put(&url, &[("X-aliyun-ecs-metadata-token-ttl-seconds", "60")])?;
    if reply.status == 404 {
        // Normal mode, on hosts that are older than the hardened one.
        return Ok(None);
    }
    let token = reply.text()?.trim().to_owned();
    if token.is_empty() || !token.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(Failure::Again(format!("{url}: the answer is no token")));
    }
    Ok(Some(token))
}

/// `REGION.INSTANCE`, without a scheme: kubernetes/cloud-provider-alibaba-cloud, docs/getting-started.md
/// (kubelet's `--provider-id`) and pkg/provider/alibaba/ecs (`NodeFromProviderID`).
pub fn provider_id(context: &Context) -> Attempt<String> {
    let attributes = (context.afterburn.get("ALIYUN_REGION_ID"), context.afterburn.get("ALIYUN_INSTANCE_ID"));
    let (region, instance) = if let (Some(region), Some(instance)) = attributes {
        (region.to_owned(), instance.to_owned())
    } else {
        let token = token(context)?;
        let header = token.as_deref().map(|token| ("X-aliyun-ecs-metadata-token", token));
        let get = |path: &str| -> Attempt<String> {
            context.client.get(&format!("{BASE}/meta-data/{path}"), header.as_slice())?.text()
        };
        (get("region-id")?, get("instance-id")?)
    };
    let region = names::identifier("the region", &region)?;
    let instance = names::identifier("the instance id", &instance)?;
    Ok(format!("{region}.{instance}"))
}
