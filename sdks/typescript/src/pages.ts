/** Paged lists. */

/** Requests page after page, from the one that `query` selects to the last. */
export async function* pages<
  Query extends { cursor?: string | null },
  Page extends { nextCursor?: string | null },
>(query: Query, list: (query: Query) => Promise<Page>): AsyncGenerator<Page, void> {
  for (let next = query; ; ) {
    const page = await list(next);
    yield page;
    const { nextCursor: cursor } = page;
    if (cursor === undefined || cursor === null) return;
    next = { ...query, cursor };
  }
}
